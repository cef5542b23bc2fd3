// bench_double HOW FOLDER: a process that `lockstep bench comm` could measure, if it did what it
// should. HOW:
//   right     does, as long as it is alone
//   wrong     leaves what it got as it was, and adds 1 to the first value
//   quits     exits with 3 in a collective
//   hangs     never comes out of a collective
//   twin      says that it is rank 0, whoever it is
//   ends-ill  exits with 1 after all went well

#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "lockstep/cli/bench_worker.h"
#include "lockstep/topology/environment.h"
#include "lockstep/topology/identity.h"

namespace {

class Double final : public lockstep::cli::Contender {
 public:
  explicit Double(std::string how)
      : how_(std::move(how)),
        identity_(
            lockstep::topology::read_identity(lockstep::topology::Environment::of_this_process())) {
  }

  int rank() const override { return how_ == "twin" ? 0 : identity_.instance; }
  int size() const override { return identity_.num_instances; }

  void barrier() override {}
  void all_reduce(std::span<float> values) override {
    if (how_ == "quits") ::_exit(3);
    if (how_ == "hangs") ::pause();
    if (how_ == "wrong") values.front() += 1;
  }
  std::span<const float> reduce_scatter(std::span<float>, std::span<float>) override {
    throw std::logic_error("not for this test");
  }
  void all_gather(std::span<const float>, std::span<float>) override {
    throw std::logic_error("not for this test");
  }
  void broadcast(std::span<float>) override { throw std::logic_error("not for this test"); }

 private:
  std::string how_;
  lockstep::topology::Identity identity_;
};

}  // namespace

int main(int argc, char** argv) {
  const auto arguments = std::span<char* const>(argv, static_cast<std::size_t>(argc)).subspan(1);
  const std::string how = arguments.empty() ? "" : arguments.front();
  const int code = lockstep::cli::worker_main(arguments, [&](const std::string& folder) {
    Double contender(how);
    lockstep::cli::serve(contender, folder);
  });
  return how == "ends-ill" ? 1 : code;
}

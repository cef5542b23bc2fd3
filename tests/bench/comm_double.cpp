// comm_double HOW FOLDER: a worker for `lockstep bench comm` that misbehaves on request. HOW:
//   right     is correct as a single instance
//   wrong     returns the input with 1 added to the first value
//   quits     exits with 3 in a collective
//   hangs     never returns from a collective
//   twin      reports rank 0 in every instance
//   ends-ill  exits with 1 after correct work

#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "bench/comm/worker.h"
#include "lockstep/topology/environment.h"
#include "lockstep/topology/identity.h"

namespace {

class Double final : public lockstep::bench::Collectives {
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
  const int code = lockstep::bench::worker_main(arguments, [&](const std::string& folder) {
    Double system(how);
    lockstep::bench::serve(system, folder);
  });
  return how == "ends-ill" ? 1 : code;
}

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tests/support/subprocess.h"

namespace lockstep::testing {

/// Instances of `comm_worker` that a test starts itself, with torchrun's variables: nobody ends
/// them when one of them fails.
class WorkerJob {
 public:
  struct Options {
    int instances = 2;   ///< that are started
    int world_size = 0;  ///< that are said to be; as many as are started if 0
    std::string stall_timeout = "60";
  };

  WorkerJob(std::vector<std::string> arguments, Options options);

  Subprocess& process(int rank) { return *processes_.at(static_cast<std::size_t>(rank)); }
  Finished wait(int rank) { return process(rank).wait(); }
  /// Waits for the line "ready" of every process.
  void wait_until_ready();

  /// Another process that says it is this instance.
  std::unique_ptr<Subprocess> start_again(int rank, std::map<std::string, std::string> other = {});

 private:
  std::vector<std::string> command_;
  std::map<std::string, std::string> environment_;
  std::vector<std::unique_ptr<Subprocess>> processes_;
};

}  // namespace lockstep::testing

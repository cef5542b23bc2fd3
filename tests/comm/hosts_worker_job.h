#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/base/file.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::testing {

/// Instances of `comm_worker` on several hosts that are all this one, with the variables that the
/// launcher would give them: nobody ends them when one of them fails.
class HostsWorkerJob {
 public:
  struct Options {
    std::vector<int> instances{2, 2};  ///< of each host
    std::string stall_timeout = "60";
    std::vector<int> hosts_that_stay_away{};
  };

  HostsWorkerJob(std::vector<std::string> arguments, Options options);

  int num_instances() const { return static_cast<int>(processes_.size()); }
  Subprocess& process(int instance) { return *processes_.at(static_cast<std::size_t>(instance)); }
  Finished wait(int instance) { return process(instance).wait(); }
  void wait_until_ready();

 private:
  ScratchFolder folder_;
  std::vector<UniqueFd> listeners_;
  std::vector<std::unique_ptr<Subprocess>> processes_;  ///< by instance; none where one stays away
};

}  // namespace lockstep::testing

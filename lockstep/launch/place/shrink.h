#pragma once

#include <vector>

#include "lockstep/launch/place/job_plan.h"
#include "lockstep/topology/host_list.h"
#include "lockstep/topology/machine.h"

namespace lockstep::launch {

/// How often in a row an instance has to fail until the job goes on without it.
inline constexpr int kFailuresBeforeShrinking = 2;

/// Plans how a job goes on with one instance fewer, again and again: with the same replicas and as
/// many threads for each device, so with the same results.
class Shrinker {
 public:
  Shrinker(RunOptions options, std::vector<topology::Host> hosts, topology::Machine machine);

  struct Shrunk {
    JobPlan plan;
    std::vector<int> without_cores;  ///< of the machine as it was at first
  };
  /// The job after `plan`, without the place of one of its several instances. Where that was bound
  /// to cores which nobody else uses, nobody will use them.
  Shrunk without(const JobPlan& plan, int instance);

 private:
  void name_cores(JobPlan& plan) const;

  RunOptions options_;
  std::vector<topology::Host> hosts_;
  topology::Machine machine_;      ///< what is left of it
  std::vector<int> core_numbers_;  ///< of the cores that are left
};

}  // namespace lockstep::launch

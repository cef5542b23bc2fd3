#pragma once

#include <sys/resource.h>

#include <string>
#include <vector>

#include "lockstep/launch/place/job_plan.h"
#include "lockstep/launch/start/instance_environment.h"
#include "lockstep/launch/supervise/death_watch.h"
#include "lockstep/launch/supervise/instance_process.h"
#include "lockstep/launch/supervise/signals.h"

namespace lockstep::launch {

/// What every instance of a job is started with.
struct StartOptions {
  std::string program;                 ///< the file
  std::vector<std::string> arguments;  ///< argv
  std::string log_dir;
  OutputStream::Mode stdout_mode = OutputStream::Mode::Lines;
  OutputStream::Mode stderr_mode = OutputStream::Mode::Lines;
  enum class Input { Launchers, Nothing };
  Input input = Input::Launchers;  ///< of instance 0; the others read nothing
};

/// Starts instances: their pipes, files, variables and processes.
class InstanceStarter {
 public:
  /// Raises the limit on open files, which two pipes and two logs for each instance would reach.
  InstanceStarter(const JobContext& context, StartOptions options, const Signals& signals);

  /// Returns when the program runs; `deaths` watches over the process from its birth. Throws
  /// `NotExecutable` or `Io`; a process may then be left, about to end.
  InstanceProcess start(const JobPlan& plan, const PlannedInstance& planned, int restart_count,
                        DeathWatch& deaths) const;

 private:
  const JobContext& context_;
  StartOptions options_;
  const Signals& signals_;
  rlimit original_descriptors_{};
  off_t input_start_;  ///< where the launcher's standard input stood; -1 where it cannot go back
};

}  // namespace lockstep::launch

#pragma once

#include <sys/resource.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/events/job_events.h"
#include "lockstep/launch/place/job_plan.h"
#include "lockstep/launch/start/instance_environment.h"
#include "lockstep/launch/supervise/instance_process.h"
#include "lockstep/launch/supervise/signals.h"
#include "lockstep/launch/supervise/verdict.h"

namespace lockstep::launch {

/// What the supervisor needs besides the plan.
struct SupervisorOptions {
  std::string program;                 ///< the file
  std::vector<std::string> arguments;  ///< argv
  int max_restarts = 0;
  events::Seconds grace_period{5};
  std::string log_dir;
  OutputStream::Mode stdout_mode = OutputStream::Mode::Lines;
  OutputStream::Mode stderr_mode = OutputStream::Mode::Lines;
  int warden = -1;  ///< a pidfd; when that process is gone, everything ends at once
};

/// Starts the instances of this host, passes on their output, and stays until no process of the
/// job is left, whatever happens.
///
/// One thread, one poll loop. The process must be a subreaper: every orphan of the job becomes its
/// child, so having no child means that nothing is left.
///
/// An attempt is one start of all instances. It runs; then it ends, because all instances have,
/// because one failed, or because the launcher was told to: whoever is left has SIGTERM and a grace
/// period; and if that did not help, it kills.
class Supervisor {
 public:
  Supervisor(const JobPlan& plan, const JobContext& context, SupervisorOptions options,
             Signals& signals, events::JobSink& sink);

  /// Runs the job, with its restarts. Returns the launcher's exit code.
  /// Throws `NotExecutable` where the program cannot be started; nothing is left running then
  /// either.
  int run();

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase { Running, Ending, Killing };

  int run_attempt(int restart_count);
  void start_instances(int restart_count);
  InstanceProcess start_instance(const PlannedInstance& planned, int restart_count);

  void wait_for_something();
  std::chrono::milliseconds time_to_wait() const;
  void handle_signal(int signal);
  void interrupt(int signal);
  void reap();
  void note_exit(pid_t pid, int wait_status);
  void judge();
  void act_on_time();

  void begin_ending();
  void begin_killing();
  void end_leftovers();
  void signal_groups(int signal);
  void finish_output();
  void report_failure();

  bool any_instance_running() const;

  const JobPlan& plan_;
  const JobContext& context_;
  SupervisorOptions options_;
  Signals& signals_;
  events::JobSink& sink_;
  rlimit original_descriptors_;  ///< for the instances

  // Of the current attempt:
  Phase phase_ = Phase::Running;
  std::vector<InstanceProcess> instances_;
  bool children_left_ = false;
  bool leftovers_told_ = false;
  Verdict verdict_;
  std::optional<int> failed_;
  std::optional<Clock::time_point> deadline_;  ///< when the phase is over
  Clock::time_point give_up_;                  ///< while killing: when even that has not helped

  // Of the whole job:
  std::optional<int> interrupted_by_;
  Clock::time_point interrupted_at_;
  int interrupts_ = 0;
  bool warden_gone_ = false;
};

}  // namespace lockstep::launch

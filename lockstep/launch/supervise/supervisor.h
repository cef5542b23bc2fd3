#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "lockstep/comm/host/kept_memory.h"
#include "lockstep/events/job_events.h"
#include "lockstep/launch/place/job_plan.h"
#include "lockstep/launch/place/shrink.h"
#include "lockstep/launch/supervise/chaos.h"
#include "lockstep/launch/supervise/death_watch.h"
#include "lockstep/launch/supervise/fault_injector.h"
#include "lockstep/launch/supervise/instance_process.h"
#include "lockstep/launch/supervise/instance_start.h"
#include "lockstep/launch/supervise/overseer.h"
#include "lockstep/launch/supervise/signals.h"
#include "lockstep/launch/supervise/verdict.h"

namespace lockstep::launch {

struct SupervisorOptions {
  int max_restarts = 0;
  events::Seconds grace_period{5};
  events::Seconds stall_timeout{0};  ///< for which an instance may be stopped; 0: for ever
  int warden = -1;  ///< a pidfd; when that process is gone, everything ends at once
  std::optional<ChaosOptions> chaos{};
  /// What instances leave for those that come after them; it outlives the supervisor.
  comm::host::KeptMemory* kept_memory = nullptr;
  Shrinker* shrinker = nullptr;  ///< plans with fewer instances, where that is wanted
  int first_attempt = 0;         ///< how often the job had been started before
  Overseer* overseer = nullptr;  ///< decides instead of the supervisor, which only reports
};

/// Starts the instances of this host, passes on their output, and stays until no process of the
/// job is left, whatever happens.
///
/// One thread, one poll loop. The process must be a subreaper: every orphan of the job becomes its
/// child, so having no child means that nothing is left.
///
/// An attempt is one start of all instances. It runs; then it ends, because all instances have,
/// because one failed, or because the launcher was told to: whoever is left has SIGTERM and a grace
/// period; and if that did not help, it kills. Where the job will be started again, and what it has
/// come to is safe in kept memory, it kills at once.
class Supervisor {
 public:
  Supervisor(JobPlan plan, const InstanceStarter& starter, const SupervisorOptions& options,
             Signals& signals, events::JobSink& sink);

  /// Runs the job, with its restarts. Returns the launcher's exit code.
  /// Throws `NotExecutable` or `Io` where an instance cannot be started; nothing is left then
  /// either.
  int run();

  // What an overseer may ask for while the job runs.

  /// SIGTERM, and after the grace period SIGKILL, to all that is left.
  void end();
  enum class Output { Deliver, Drop };
  /// SIGKILL. What was written is passed on first, or dropped where nobody waits for it any more.
  void kill(Output output);
  /// Any signal that does not end the job.
  void pass_on(int signal);
  /// Tells the sink of an instance that has failed: what it wrote last is passed on before.
  void report(int instance);

  /// The last optimizer step that the instances of this host have committed.
  std::optional<std::int64_t> step() const;
  bool is_state_kept() const;
  /// Whether the last attempt has left processes that not even SIGKILL has ended.
  bool has_survivors() const noexcept { return attempt_.has_survivors; }

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase { Running, Ending, Killing };

  /// What is known of the current attempt.
  struct Attempt {
    int restart_count = 0;
    Phase phase = Phase::Running;
    std::vector<InstanceProcess> instances;
    DeathWatch deaths;
    bool children_left = true;
    bool has_survivors = false;   ///< that not even SIGKILL has ended
    std::set<pid_t> told_to_end;  ///< orphans that have had their SIGTERM
    Verdict verdict;
    std::optional<int> failed;                  ///< the instance that decides
    std::optional<Clock::time_point> deadline;  ///< when the phase is over
    Clock::time_point give_up;                  ///< while killing: when even that has not helped
  };

  int run_attempts();
  void run_attempt(int restart_count);
  void start_instances();
  bool may_restart() const;
  int cause() const;
  void shrink_if_repeated(int cause);
  int exit_code() const;
  const InstanceProcess& process_of(int instance) const;
  InstanceProcess& process_of(int instance);

  void wait_for_something();
  void handle_signal(int signal);
  void interrupt(int signal);
  void reap();
  void note_death(const DeathWatch::Death& death);
  void judge();
  bool is_watching() const;
  std::optional<Clock::time_point> next_time() const;
  void act_on_time();

  void fail(int instance);
  void begin_ending();
  void begin_killing();
  void end_leftovers();

  void finish_output();
  void wait_for_reader();
  void report_victims();

  JobPlan plan_;
  const InstanceStarter& starter_;
  SupervisorOptions options_;
  Signals& signals_;
  events::JobSink& sink_;

  Attempt attempt_;
  std::optional<FaultInjector> faults_;
  std::optional<int> last_failed_;
  int failures_in_a_row_ = 0;  ///< of that instance
  bool is_suspended_ = false;  ///< by SIGTSTP, which the launcher has passed on
  std::optional<int> interrupted_by_;
  Clock::time_point interrupted_at_;
  bool warden_gone_ = false;
  bool waits_for_reader_ = true;
};

}  // namespace lockstep::launch

#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/events/job_events.h"
#include "lockstep/launch/hosts/agent_pool.h"
#include "lockstep/launch/hosts/host_check.h"
#include "lockstep/launch/hosts/host_reports.h"
#include "lockstep/launch/hosts/hosts_job.h"
#include "lockstep/launch/hosts/wire.h"
#include "lockstep/launch/place/job_plan.h"
#include "lockstep/launch/supervise/signals.h"
#include "lockstep/launch/supervise/verdict.h"

namespace lockstep::launch {

/// Runs a job over several hosts, through an agent on each: what the supervisor is to a job on one.
///
/// One thread, one poll loop. The verdict is one for the whole job: the first instance that failed
/// by itself, wherever it was, or a host that is lost. Then the others are ended. Where the job may
/// be started again, a host that was lost is waited for.
class Coordinator {
 public:
  /// When a host that says nothing is named, and how long one that was lost is waited for.
  static constexpr std::chrono::seconds kLate{10};
  static constexpr std::chrono::seconds kPatienceWithHosts{300};

  /// `warden` is a pidfd, see `run_under_warden`.
  Coordinator(const HostsJob& job, const Engine& engine, Signals& signals, events::JobSink& sink,
              int warden);
  ~Coordinator();
  Coordinator(const Coordinator&) = delete;
  Coordinator& operator=(const Coordinator&) = delete;

  /// Starts the agents and has every host checked. Throws where the engine is not here.
  std::vector<HostReport> check();

  /// The exit code, where the launcher was told to end while it checked, or its warden was killed:
  /// then nothing is to be started.
  std::optional<int> interrupted() const;

  /// The machine of each host, once all are good.
  std::vector<topology::Machine> machines() const;

  /// Runs the job, with its restarts. Returns the launcher's exit code. Throws what kept instances
  /// from being started; nothing is left then either.
  int run(const JobPlan& plan);

 private:
  using Clock = std::chrono::steady_clock;
  enum class Phase { Running, Ending, Killing };

  struct InstanceState {
    int host = 0;
    std::string host_name;
    pid_t pid = 0;
    std::optional<events::ExitStatus> status{};
    Clock::time_point started;
    int given_up = -1;  ///< by those of its host, when it ended
  };

  struct HostState {
    bool is_over = false;  ///< nothing of this attempt is left there
    bool is_lost = false;
    bool is_late = false;  ///< and has been named
    bool is_kept = false;  ///< what the training needs to go on outlives the attempt
    std::int64_t step = -1;
    std::size_t taken = 0;  ///< bytes of output that it has yet to be told of
  };

  struct Attempt {
    int number = 0;
    Phase phase = Phase::Running;
    bool is_running = false;  ///< between start and the last `over`
    std::vector<InstanceState> instances;
    Verdict verdict;
    std::optional<int> failed;             ///< the instance that decides
    std::optional<events::HostLost> lost;  ///< or the host that does
    bool is_reported = false;              ///< the failure of an instance
    std::optional<Error> error;            ///< something kept instances from being started
    bool has_survivors = false;
    std::optional<Clock::time_point> deadline;
    std::optional<Clock::time_point> give_up;  ///< hosts that do not say that they are over
  };

  int run_attempts(const JobPlan& plan);
  void run_attempt(const JobPlan& plan, int number);
  void start_attempt(const JobPlan& plan);
  Message start_message(const JobPlan& plan, int host) const;
  bool is_over() const;
  bool may_restart() const;
  std::vector<int> find_absent_hosts();
  bool bring_hosts_back();
  void tell_of_absent_hosts(const std::vector<int>& absent, Clock::time_point deadline);
  bool try_hosts(std::vector<int> tried);
  void wait_for_hosts(const std::function<bool()>& is_over);
  std::optional<int> cause() const;
  int exit_code() const;
  std::optional<std::int64_t> step() const;
  bool is_state_kept() const;

  void wait_for_something(std::optional<Clock::time_point> until = std::nullopt);
  void handle_signal(int signal);
  void interrupt(int signal);
  void handle(int host, const Message& message);
  void on_event(int host, const Message& message, const HostEvent& event);
  void note_end(int host, const Message& message, const events::InstanceEnded& event);
  void note_over(int host, const Message& message);
  void acknowledge_output();
  void append_log(const std::string& lines);
  void look_for_lost_hosts();
  void give_up_hosts();
  void check_instance(int host, int instance) const;
  void lose(int host, std::optional<events::Seconds> silent);
  void note_leaving(int host);
  bool is_state_kept_elsewhere(int host) const;
  int silent_host() const;
  static bool is_of_waiting(const events::ExitStatus& status);
  void judge();
  void fail(int instance);
  void report_without_agent();
  void begin_ending();
  void begin_killing(bool drops_output);
  void act_on_time();
  bool any_running() const;
  void report_victims();
  void wait_for_reader();

  const HostsJob& job_;
  const Engine& engine_;
  Signals& signals_;
  events::JobSink& sink_;
  int warden_;
  AgentPool pool_;
  HostCheck check_;
  HostReports reports_;
  bool is_checking_ = false;
  std::vector<HostState> hosts_;
  Attempt attempt_;
  UniqueFd log_;  ///< what instances elsewhere write of their own into the job's log
  std::optional<int> interrupted_by_;
  Clock::time_point interrupted_at_;
  bool is_told_by_agent_ = false;  ///< and has not heard it itself yet
  bool warden_gone_ = false;
  bool waits_for_reader_ = true;
};

}  // namespace lockstep::launch

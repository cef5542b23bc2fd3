#include "lockstep/launch/supervise/supervisor.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "lockstep/base/error.h"
#include "lockstep/launch/start/spawn.h"
#include "lockstep/launch/supervise/descendants.h"

namespace lockstep::launch {
namespace {

using std::chrono::milliseconds;

/// How long the true cause of a failure may be seen later than its victims.
constexpr milliseconds kVictimPatience{1000};
/// A process that forks while it is being killed leaves a child to kill in the next round.
constexpr milliseconds kKillInterval{20};
/// What SIGKILL has not ended by then hangs in the kernel.
constexpr milliseconds kUnkillable{10'000};
/// `timeout` and some shells send a signal to us and to our group: that is one, not two.
constexpr milliseconds kSameSignal{100};
constexpr int kPipeBytes = 256 * 1024;

UniqueFd open_log(const std::string& folder, int instance, const char* stream, bool first_start) {
  if (folder.empty()) return {};
  const auto path = fmt::format("{}/instance-{}.{}", folder, instance, stream);
  const int flags = O_WRONLY | O_CREAT | O_CLOEXEC | O_APPEND | (first_start ? O_TRUNC : 0);
  UniqueFd file(::open(path.c_str(), flags, 0666));
  if (!file) throw io_error("run: --log-dir: " + path);
  return file;
}

/// Two pipes and two logs for each instance add up. Returns the limit as it was.
rlimit allow_more_descriptors() {
  rlimit original{};
  ::getrlimit(RLIMIT_NOFILE, &original);
  const rlimit most{original.rlim_max, original.rlim_max};
  ::setrlimit(RLIMIT_NOFILE, &most);
  return original;
}

/// A pipe whose reading end does not block us, while its writing end is an ordinary one.
Pipe make_output_pipe() {
  auto pipe = make_pipe();
  ::fcntl(pipe.read_end.get(), F_SETFL, O_NONBLOCK);
  ::fcntl(pipe.read_end.get(), F_SETPIPE_SZ, kPipeBytes);  // fewer switches; a wish, not a need
  return pipe;
}

/// Instance 0 reads what the launcher was given. A terminal stays with the shell: a process outside
/// the foreground group that read from it would be stopped.
UniqueFd open_stdin(int instance) {
  if (instance == 0 && ::isatty(STDIN_FILENO) == 0) {
    if (UniqueFd own(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)); own) return own;
  }
  return UniqueFd(::open("/dev/null", O_RDONLY | O_CLOEXEC));
}

}  // namespace

Supervisor::Supervisor(const JobPlan& plan, const JobContext& context, SupervisorOptions options,
                       Signals& signals, events::JobSink& sink)
    : plan_(plan),
      context_(context),
      options_(std::move(options)),
      signals_(signals),
      sink_(sink),
      original_descriptors_(allow_more_descriptors()) {}

int Supervisor::run() {
  for (int restart = 0;; ++restart) {
    const int code = run_attempt(restart);
    const bool goes_on = failed_ && !interrupted_by_ && !warden_gone_ && !sink_.reader_gone();
    if (!goes_on || restart == options_.max_restarts) return code;
    sink_.on(events::JobRestarting{restart + 1, options_.max_restarts});
  }
}

int Supervisor::run_attempt(int restart_count) {
  phase_ = Phase::Running;
  deadline_.reset();
  leftovers_told_ = false;
  verdict_ = {};
  failed_.reset();

  children_left_ = true;
  std::optional<Error> start_error;
  try {
    start_instances(restart_count);
  } catch (const Error& error) {
    start_error = error;
    begin_killing();
  }
  while (children_left_) wait_for_something();
  finish_output();
  if (start_error) throw *start_error;

  if (interrupted_by_) return 128 + *interrupted_by_;
  if (!failed_) return 0;
  report_failure();
  return instances_[static_cast<std::size_t>(*failed_)].status->shell_code();
}

void Supervisor::start_instances(int restart_count) {
  instances_.clear();
  instances_.reserve(plan_.instances.size());
  for (const auto& planned : plan_.instances) {
    instances_.push_back(start_instance(planned, restart_count));
  }
}

InstanceProcess Supervisor::start_instance(const PlannedInstance& planned, int restart_count) {
  const int instance = planned.identity.instance;
  auto output = make_output_pipe();
  auto error = make_output_pipe();
  const auto input = open_stdin(instance);
  const bool first_start = restart_count == 0;
  auto output_log = open_log(options_.log_dir, instance, "stdout", first_start);
  auto error_log = open_log(options_.log_dir, instance, "stderr", first_start);

  auto spawned = spawn({
      .program = options_.program,
      .arguments = options_.arguments,
      .environment = instance_environment(plan_, planned, context_, restart_count).to_strings(),
      .stdin_fd = input.get(),
      .stdout_fd = output.write_end.get(),
      .stderr_fd = error.write_end.get(),
      .cpus = planned.cpus,
      .signal_mask = signals_.original_mask(),
      .descriptors = original_descriptors_,
  });
  spawned.wait_until_executing(options_.program);
  sink_.on(events::InstanceStarted{instance, planned.host, spawned.pid(), planned.cpus});

  return {.instance = instance,
          .pid = spawned.pid(),
          .started = Clock::now(),
          .ended = {},
          .status = std::nullopt,
          .standard_output = {instance, events::Stream::Stdout, options_.stdout_mode,
                              std::move(output.read_end), std::move(output_log)},
          .standard_error = {instance, events::Stream::Stderr, options_.stderr_mode,
                             std::move(error.read_end), std::move(error_log)}};
}

void Supervisor::wait_for_something() {
  std::vector<pollfd> fds{{signals_.fd(), POLLIN, 0},
                          {warden_gone_ ? -1 : options_.warden, POLLIN, 0}};
  std::vector<OutputStream*> streams;
  const auto blocked_on = sink_.blocked_on();
  for (const int fd : blocked_on) fds.push_back({fd, POLLOUT, 0});
  const auto first_stream = fds.size();
  if (blocked_on.empty()) {
    for (auto& process : instances_) {
      for (auto* stream : process.streams()) {
        if (stream->fd() < 0) continue;
        fds.push_back({stream->fd(), POLLIN, 0});
        streams.push_back(stream);
      }
    }
  }
  ::poll(fds.data(), fds.size(), static_cast<int>(time_to_wait().count()));

  if (fds[1].revents != 0) {
    warden_gone_ = true;
    begin_killing();
  }
  sink_.resume();
  for (std::size_t i = 0; i < streams.size() && sink_.blocked_on().empty(); ++i) {
    if (fds[first_stream + i].revents != 0) streams[i]->forward(sink_);
  }
  if (sink_.reader_gone() && phase_ == Phase::Running) interrupt(SIGPIPE);
  while (const auto signal = signals_.take()) handle_signal(*signal);
  act_on_time();
}

milliseconds Supervisor::time_to_wait() const {
  if (!deadline_) return milliseconds(-1);
  const auto left = std::chrono::ceil<milliseconds>(*deadline_ - Clock::now());
  return std::max(milliseconds(0), left);
}

void Supervisor::handle_signal(int signal) {
  switch (signal) {
    case SIGCHLD:
      return reap();
    case SIGINT:
    case SIGTERM:
    case SIGHUP:
      return interrupt(signal);
    case SIGQUIT:
      interrupted_by_ = interrupted_by_.value_or(signal);
      return begin_killing();
    case SIGTSTP:
    case SIGCONT:
      return signal_groups(signal);
    default:
      // SIGUSR1 and SIGUSR2 mean what the program makes of them, and would end its helpers.
      for (const auto& process : instances_) {
        if (process.running()) ::kill(process.pid, signal);
      }
  }
}

/// The first time gently, the second time at once.
void Supervisor::interrupt(int signal) {
  if (interrupted_by_ && Clock::now() - interrupted_at_ < kSameSignal) return;
  const bool again = interrupted_by_.has_value() || phase_ != Phase::Running;
  const auto grace = again ? events::Seconds(0) : options_.grace_period;
  interrupted_by_ = interrupted_by_.value_or(signal);
  interrupted_at_ = Clock::now();
  ++interrupts_;
  sink_.on(events::JobInterrupted{signal, grace});
  if (again) {
    begin_killing();
  } else {
    begin_ending();
  }
}

void Supervisor::reap() {
  while (true) {
    int wait_status = 0;
    const pid_t pid = ::waitpid(-1, &wait_status, WNOHANG);
    if (pid < 0 && errno == EINTR) continue;
    children_left_ = pid >= 0;
    if (pid <= 0) break;
    note_exit(pid, wait_status);
  }
  if (phase_ == Phase::Running) judge();
  if (children_left_ && !any_instance_running()) end_leftovers();
}

void Supervisor::note_exit(pid_t pid, int wait_status) {
  for (auto& process : instances_) {
    if (process.pid != pid || !process.running()) continue;
    process.status = to_exit_status(wait_status);
    process.ended = Clock::now();
    if (phase_ == Phase::Running) verdict_.add(process.instance, *process.status);
    return;
  }
}

/// Decides whether the job has failed, once all exits that are known have been noted.
void Supervisor::judge() {
  if (verdict_.cause() || !any_instance_running()) {
    failed_ = verdict_.best_guess();
    if (failed_) begin_ending();
  } else if (verdict_.waiting_for_cause() && !deadline_) {
    deadline_ = Clock::now() + kVictimPatience;
  }
}

void Supervisor::act_on_time() {
  if (!deadline_ || Clock::now() < *deadline_) return;
  switch (phase_) {
    case Phase::Running:
      failed_ = verdict_.best_guess();
      return begin_ending();
    case Phase::Ending:
      return begin_killing();
    case Phase::Killing:
      break;
  }
  const auto stubborn = descendants_of(::getpid());
  signal_all(stubborn, SIGKILL);
  deadline_ = Clock::now() + kKillInterval;
  if (Clock::now() < give_up_ || stubborn.empty()) return;
  for (const auto& process : stubborn) {
    sink_.on(events::Warning{fmt::format("{} (pid {}, state {}) does not end on SIGKILL",
                                         process.name, process.pid, process.state)});
  }
  children_left_ = false;
}

void Supervisor::begin_ending() {
  phase_ = Phase::Ending;
  deadline_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(options_.grace_period);
  signal_groups(SIGTERM);
  signal_groups(SIGCONT);  // one that is stopped could not end
}

void Supervisor::begin_killing() {
  if (phase_ == Phase::Killing) return;
  phase_ = Phase::Killing;
  give_up_ = Clock::now() + kUnkillable;
  deadline_ = Clock::now();
  reap();
  act_on_time();
}

/// Every instance has ended, but processes that they started have not.
void Supervisor::end_leftovers() {
  if (leftovers_told_) return;
  leftovers_told_ = true;
  const auto leftovers = descendants_of(::getpid());
  if (leftovers.empty()) return;
  if (phase_ == Phase::Running) {
    events::LeftoversEnded event;
    for (const auto& process : leftovers) {
      event.processes.push_back(fmt::format("{} (pid {})", process.name, process.pid));
    }
    sink_.on(event);
    begin_ending();
  }
  signal_all(leftovers, SIGTERM);
  signal_all(leftovers, SIGCONT);
}

void Supervisor::signal_groups(int signal) {
  for (const auto& process : instances_) {
    if (process.running()) ::kill(-process.pid, signal);
  }
}

/// Nobody is left to write, so what is in the pipes is all.
void Supervisor::finish_output() {
  const int interrupts_before = interrupts_;
  const auto patience =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(options_.grace_period);
  const auto is_reader_worth_waiting_for = [&] {
    if (warden_gone_ || sink_.reader_gone() || interrupts_ > interrupts_before) return false;
    return !interrupted_by_ || Clock::now() < patience;
  };
  const auto wait_for_reader = [&] {
    while (!sink_.blocked_on().empty() && is_reader_worth_waiting_for()) {
      deadline_ = patience;
      wait_for_something();
    }
  };
  for (auto& process : instances_) {
    for (auto* stream : process.streams()) {
      while (stream->forward(sink_)) wait_for_reader();
      if (stream->fd() >= 0) stream->finish(sink_);
    }
  }
  wait_for_reader();
}

void Supervisor::report_failure() {
  const auto& cause = instances_[static_cast<std::size_t>(*failed_)];
  events::JobFailed event;
  event.instance = cause.instance;
  event.host = plan_.instances[static_cast<std::size_t>(*failed_)].host;
  event.pid = cause.pid;
  event.status = *cause.status;
  event.run_time = cause.ended - cause.started;
  event.last_error_lines = cause.standard_error.tail().lines();
  for (const auto& process : instances_) {
    if (process.instance == cause.instance || process.status->success()) continue;
    event.victims.push_back({process.instance, *process.status});
  }
  sink_.on(event);
}

bool Supervisor::any_instance_running() const {
  return std::any_of(instances_.begin(), instances_.end(),
                     [](const InstanceProcess& process) { return process.running(); });
}

}  // namespace lockstep::launch

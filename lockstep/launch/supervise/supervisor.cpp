#include "lockstep/launch/supervise/supervisor.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <iterator>

#include "lockstep/base/error.h"
#include "lockstep/launch/supervise/descendants.h"
#include "lockstep/launch/supervise/instance_signals.h"
#include "lockstep/launch/supervise/stopped_instances.h"

namespace lockstep::launch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// How long the true cause of a failure may be seen later than its victims.
constexpr milliseconds kVictimPatience{1000};

Clock::time_point after(Clock::time_point begin, events::Seconds delay) {
  return begin + std::chrono::duration_cast<Clock::duration>(delay);
}

/// For poll: until the deadline, or for ever. It is asked again after an hour at most, since it
/// counts in an int.
int milliseconds_until(const std::optional<Clock::time_point>& deadline) {
  if (!deadline) return -1;
  const auto left = std::chrono::ceil<milliseconds>(*deadline - Clock::now());
  constexpr milliseconds kLongest = std::chrono::hours(1);
  return static_cast<int>(std::clamp(left, milliseconds(0), kLongest).count());
}

}  // namespace

Supervisor::Supervisor(JobPlan plan, const InstanceStarter& starter,
                       const SupervisorOptions& options, Signals& signals, events::JobSink& sink)
    : plan_(std::move(plan)),
      starter_(starter),
      options_(options),
      signals_(signals),
      sink_(sink) {}

int Supervisor::run() {
  const auto begin = Clock::now();
  if (options_.chaos) faults_.emplace(*options_.chaos, begin);
  const auto end = [&](int code) {
    sink_.on(events::JobEnded{.exit_code = code,
                              .restarts = attempt_.restart_count,
                              .run_time = Clock::now() - begin,
                              .step = step()});
  };
  try {
    end(run_attempts());
  } catch (const Error& error) {
    end(lockstep::exit_code(error.kind()));
    throw;
  }
  wait_for_reader();
  return exit_code();
}

int Supervisor::run_attempts() {
  for (int restart = options_.first_attempt;; ++restart) {
    run_attempt(restart);
    if (!attempt_.failed || !may_restart()) break;
    const int cause = this->cause();
    shrink_if_repeated(cause);
    sink_.on(events::JobRestarting{.restart = restart + 1,
                                   .max_restarts = options_.max_restarts,
                                   .step = is_state_kept() ? step() : std::nullopt,
                                   .instance = cause});
  }
  wait_for_reader();
  return exit_code();
}

/// Whoever comes next has to be alone with what is kept.
bool Supervisor::may_restart() const {
  return attempt_.restart_count < options_.max_restarts && !attempt_.has_survivors &&
         !interrupted_by_ && !warden_gone_ && sink_.output_error() == 0;
}

/// Where instances have given up on one that was late, that one; else who failed.
int Supervisor::cause() const {
  const int failed = *attempt_.failed;
  const auto& status = process_of(failed).status;
  const bool gave_up = status->shell_code() == lockstep::exit_code(ErrorKind::Timeout);
  const int late = options_.kept_memory != nullptr ? options_.kept_memory->given_up() : -1;
  return gave_up && late >= 0 && late < std::ssize(attempt_.instances) ? late : failed;
}

void Supervisor::shrink_if_repeated(int cause) {
  failures_in_a_row_ = last_failed_ == cause ? failures_in_a_row_ + 1 : 1;
  last_failed_ = cause;
  if (options_.shrinker == nullptr || failures_in_a_row_ < kFailuresBeforeShrinking ||
      plan_.instances.size() == 1) {
    return;
  }
  auto shrunk = options_.shrinker->without(plan_, cause);
  sink_.on(events::JobShrunk{.instance = cause,
                             .failures = failures_in_a_row_,
                             .num_instances = static_cast<int>(shrunk.plan.instances.size()),
                             .without_cores = shrunk.without_cores});
  plan_ = std::move(shrunk.plan);
  last_failed_.reset();  // the numbers mean others now
}

/// A failure decides, whatever came after it; then what ended the job from outside. One that was
/// asked to stop, and did, has ended well; unless the launcher had no patience with some of it.
int Supervisor::exit_code() const {
  if (attempt_.failed) {
    return process_of(*attempt_.failed).status->shell_code();
  }
  const int output_error = sink_.output_error();
  if (output_error == EPIPE) return 128 + SIGPIPE;
  if (output_error != 0) return lockstep::exit_code(ErrorKind::Io);
  const auto& all = attempt_.instances;
  const auto stopped = [](const auto& process) {
    return process.status && has_stopped(*process.status);
  };
  const auto ended_well = [&](const auto& process) {
    return process.status && (process.status->success() || has_stopped(*process.status));
  };
  if (std::ranges::any_of(all, stopped) &&
      (!interrupted_by_ || std::ranges::all_of(all, ended_well))) {
    return lockstep::exit_code(ErrorKind::Stopped);
  }
  return interrupted_by_ ? 128 + *interrupted_by_ : 0;
}

std::optional<std::int64_t> Supervisor::step() const {
  if (options_.kept_memory == nullptr || options_.kept_memory->step() < 0) return std::nullopt;
  return options_.kept_memory->step();
}

bool Supervisor::is_state_kept() const {
  return options_.kept_memory != nullptr && options_.kept_memory->num_pieces() > 0;
}

/// The instances of one host among several are not numbered from 0.
const InstanceProcess& Supervisor::process_of(int instance) const {
  return *std::ranges::find(attempt_.instances, instance, &InstanceProcess::instance);
}

InstanceProcess& Supervisor::process_of(int instance) {
  return *std::ranges::find(attempt_.instances, instance, &InstanceProcess::instance);
}

void Supervisor::run_attempt(int restart_count) {
  attempt_ = {};
  attempt_.restart_count = restart_count;
  if (options_.kept_memory != nullptr) options_.kept_memory->begin_attempt();
  if (faults_) faults_->forget_instances();
  std::optional<Error> start_error;
  try {
    start_instances();
  } catch (const Error& error) {
    start_error = error;
    begin_killing();
  }
  while (attempt_.children_left) wait_for_something();
  finish_output();
  if (start_error) throw *start_error;
  if (attempt_.failed) report_victims();
}

void Supervisor::start_instances() {
  attempt_.instances.reserve(plan_.instances.size());
  for (const auto& planned : plan_.instances) {
    attempt_.instances.push_back(
        starter_.start(plan_, planned, attempt_.restart_count, attempt_.deaths));
    const auto& process = attempt_.instances.back();
    sink_.on(events::InstanceStarted{.instance = process.instance,
                                     .host = process.host,
                                     .pid = process.pid,
                                     .cpus = planned.cpus,
                                     .attempt = attempt_.restart_count,
                                     .step = step()});
  }
}

void Supervisor::wait_for_something() {
  std::vector<pollfd> fds{{signals_.fd(), POLLIN, 0},
                          {warden_gone_ ? -1 : options_.warden, POLLIN, 0},
                          {attempt_.deaths.fd(), POLLIN, 0}};
  std::vector<OutputStream*> streams;
  const auto blocked_on = sink_.blocked_on();
  for (const int fd : blocked_on) fds.push_back({fd, POLLOUT, 0});
  if (options_.overseer != nullptr)
    std::ranges::copy(options_.overseer->descriptors(), std::back_inserter(fds));
  const auto first_stream = fds.size();
  if (blocked_on.empty()) {
    for (auto& process : attempt_.instances) {
      for (auto* stream : process.streams()) {
        if (stream->fd() < 0) continue;
        fds.push_back({stream->fd(), POLLIN, 0});
        streams.push_back(stream);
      }
    }
  }
  ::poll(fds.data(), fds.size(), milliseconds_until(next_time()));

  if (fds[1].revents != 0) {
    warden_gone_ = true;
    if (options_.overseer != nullptr) options_.overseer->note_warden_gone();
    begin_killing();
  }
  if (fds[2].revents != 0) reap();
  while (const auto signal = signals_.take()) handle_signal(*signal);
  if (options_.overseer != nullptr) options_.overseer->attend(*this);
  act_on_time();

  sink_.resume();
  for (std::size_t i = 0; i < streams.size() && sink_.blocked_on().empty(); ++i) {
    if (fds[first_stream + i].revents != 0) streams[i]->forward(sink_);
  }
  if (sink_.output_error() != 0 && attempt_.phase == Phase::Running) begin_ending();
}

void Supervisor::handle_signal(int signal) {
  if (ends_job(signal)) return interrupt(signal);
  if (signal != SIGCHLD) return pass_on(signal);
  note_stops(attempt_.instances, sink_);
  reap();
}

void Supervisor::pass_on(int signal) {
  switch (signal) {
    case SIGTSTP:
      is_suspended_ = true;
      return signal_groups(attempt_.instances, signal);
    case SIGCONT:
      is_suspended_ = false;
      for (auto& process : attempt_.instances) process.stopped_since.reset();
      return signal_groups(attempt_.instances, signal);
    default:
      return signal_instances(attempt_.instances, signal);
  }
}

/// The first time gently, the second time at once. SIGQUIT is never gentle.
void Supervisor::interrupt(int signal) {
  if (options_.overseer != nullptr) return options_.overseer->note_signal(signal);
  const bool is_repeated = interrupted_by_ && Clock::now() - interrupted_at_ < kSameSignal;
  if (is_repeated && signal != SIGQUIT) return;
  const bool kill = interrupted_by_.has_value() || signal == SIGQUIT;
  if (!interrupted_by_) interrupted_by_ = signal;
  interrupted_at_ = Clock::now();
  sink_.on(events::JobInterrupted{signal, kill ? events::Seconds(0) : options_.grace_period});
  if (kill) {
    waits_for_reader_ = false;
    begin_killing();
  } else if (attempt_.phase == Phase::Running) {
    begin_ending();
  }
}

void Supervisor::reap() {
  for (const auto& death : attempt_.deaths.take()) note_death(death);
  attempt_.children_left = attempt_.deaths.reap_others();
  if (attempt_.phase == Phase::Running) judge();
  if (attempt_.children_left && !any_running(attempt_.instances)) end_leftovers();
}

void Supervisor::note_death(const DeathWatch::Death& death) {
  for (auto& process : attempt_.instances) {
    if (process.pid != death.pid) continue;
    process.status = death.status;
    process.ended = Clock::now();
    sink_.on(events::InstanceEnded{.instance = process.instance,
                                   .pid = process.pid,
                                   .status = death.status,
                                   .run_time = process.ended - process.started,
                                   .step = step()});
    if (attempt_.phase != Phase::Running || options_.overseer != nullptr) continue;
    attempt_.verdict.add(process.instance, death.status);
    // The program has told all of its instances to stop: they will, in their own way.
    if (has_stopped(death.status) && !attempt_.deadline) {
      attempt_.deadline = after(process.ended, options_.grace_period);
    }
  }
}

/// Decides whether the job has failed, once all deaths that are known have been noted.
void Supervisor::judge() {
  const auto& verdict = attempt_.verdict;
  if (verdict.cause() || (verdict.best_guess() && !any_running(attempt_.instances))) {
    fail(*verdict.best_guess());
  } else if (verdict.waiting_for_cause()) {
    const auto end = Clock::now() + kVictimPatience;
    attempt_.deadline = std::min(attempt_.deadline.value_or(end), end);
  }
}

/// Whether instances are meant to run, and do.
bool Supervisor::is_watching() const {
  return attempt_.phase == Phase::Running && !is_suspended_ && any_running(attempt_.instances);
}

/// When there is something to do though nothing happens.
std::optional<Clock::time_point> Supervisor::next_time() const {
  auto next = attempt_.deadline;
  const auto consider = [&](std::optional<Clock::time_point> time) {
    if (time) next = std::min(next.value_or(*time), *time);
  };
  if (options_.overseer != nullptr) consider(options_.overseer->next_time());
  if (!is_watching()) return next;
  if (options_.stall_timeout.count() > 0) {
    consider(next_overdue_stop(attempt_.instances, options_.stall_timeout));
  }
  if (faults_) consider(faults_->next_time());
  return next;
}

void Supervisor::act_on_time() {
  if (is_watching()) {
    if (options_.stall_timeout.count() > 0) {
      give_up_stopped(attempt_.instances, options_.stall_timeout, step(), sink_);
    }
    if (faults_) faults_->act(Clock::now(), attempt_.instances, step(), sink_);
  }
  if (!attempt_.deadline || Clock::now() < *attempt_.deadline) return;
  switch (attempt_.phase) {
    case Phase::Running:
      if (const auto cause = attempt_.verdict.best_guess()) return fail(*cause);
      return begin_ending();
    case Phase::Ending:
      return begin_killing();
    case Phase::Killing:
      break;
  }
  const auto stubborn = kill_descendants();
  attempt_.deadline = Clock::now() + kKillInterval;
  if (Clock::now() < attempt_.give_up || stubborn.empty()) return;
  for (const auto& process : stubborn) {
    sink_.on(events::Warning{fmt::format("{} (pid {}, state {}) does not end on SIGKILL",
                                         process.name, process.pid, process.state)});
  }
  attempt_.children_left = false;
  attempt_.has_survivors = true;
}

/// Names the culprit at once: what it wrote last has arrived, and the others may take their time.
void Supervisor::fail(int instance) {
  attempt_.failed = instance;
  report(instance);
  // What the others would save is saved.
  if (is_state_kept() && may_restart()) return begin_killing();
  begin_ending();
}

void Supervisor::report(int instance) {
  auto& cause = process_of(instance);
  for (auto* stream : cause.streams()) {
    stream->forward(sink_);
    stream->finish_line(sink_);
  }
  sink_.on(events::InstanceFailed{.instance = instance,
                                  .host = cause.host,
                                  .pid = cause.pid,
                                  .status = *cause.status,
                                  .run_time = cause.ended - cause.started,
                                  .last_error_lines = cause.standard_error.tail().lines(),
                                  .stopped = cause.given_up_after,
                                  .step = step()});
}

void Supervisor::end() {
  if (attempt_.phase == Phase::Running) begin_ending();
}

void Supervisor::kill(Output output) {
  if (output == Output::Drop) waits_for_reader_ = false;
  begin_killing();
}

void Supervisor::begin_ending() {
  attempt_.phase = Phase::Ending;
  attempt_.deadline = after(Clock::now(), options_.grace_period);
  signal_groups(attempt_.instances, SIGTERM);
  signal_groups(attempt_.instances, SIGCONT);  // one that is stopped could not end
  end_orphans(attempt_.instances, attempt_.told_to_end);
}

void Supervisor::begin_killing() {
  if (attempt_.phase == Phase::Killing) return;
  attempt_.phase = Phase::Killing;
  attempt_.give_up = Clock::now() + kUnkillable;
  attempt_.deadline = Clock::now();
  reap();
  act_on_time();
}

/// Every instance has ended, but processes that they started have not.
void Supervisor::end_leftovers() {
  if (attempt_.phase == Phase::Ending) end_orphans(attempt_.instances, attempt_.told_to_end);
  if (attempt_.phase != Phase::Running) return;
  events::LeftoversEnded event;
  for (const auto& process : descendants_of(::getpid())) {
    event.processes.push_back(fmt::format("{} (pid {})", process.name, process.pid));
  }
  if (event.processes.empty()) return;
  sink_.on(event);
  begin_ending();
}

/// Nobody is left to write, so what is in the pipes is all.
void Supervisor::finish_output() {
  for (auto& process : attempt_.instances) {
    for (auto* stream : process.streams()) {
      do {
        wait_for_reader();
      } while (stream->forward(sink_));
      stream->finish(sink_);
    }
  }
  wait_for_reader();
}

/// No process of the job is left: only whoever reads our output may keep us, until we are told not
/// to wait, or the grace period of an interrupted job is over.
void Supervisor::wait_for_reader() {
  while (waits_for_reader_ && !warden_gone_ && sink_.output_error() == 0) {
    const auto blocked_on = sink_.blocked_on();
    if (blocked_on.empty()) return;
    std::optional<Clock::time_point> deadline;
    if (interrupted_by_) deadline = after(interrupted_at_, options_.grace_period);
    if (deadline && Clock::now() >= *deadline) return;
    if (options_.overseer != nullptr) deadline = options_.overseer->next_time();

    std::vector<pollfd> fds{{signals_.fd(), POLLIN, 0}, {options_.warden, POLLIN, 0}};
    for (const int fd : blocked_on) fds.push_back({fd, POLLOUT, 0});
    if (options_.overseer != nullptr)
      std::ranges::copy(options_.overseer->descriptors(), std::back_inserter(fds));
    ::poll(fds.data(), fds.size(), milliseconds_until(deadline));
    warden_gone_ = fds[1].revents != 0;
    while (const auto signal = signals_.take()) {
      if (ends_job(*signal)) interrupt(*signal);
    }
    if (options_.overseer != nullptr) options_.overseer->attend(*this);
    sink_.resume();
  }
}

void Supervisor::report_victims() {
  events::VictimsEnded event{*attempt_.failed, {}};
  for (const auto& process : attempt_.instances) {
    const bool ended_well = process.status && process.status->success();
    if (process.instance != *attempt_.failed && !ended_well) {
      event.victims.push_back({process.instance, process.status});
    }
  }
  if (!event.victims.empty()) sink_.on(event);
}
}  // namespace lockstep::launch

#include "lockstep/launch/hosts/coordinator.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace lockstep::launch {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

/// How long the true cause of a failure may be seen later than its victims.
constexpr milliseconds kVictimPatience{1000};

/// How long hosts may take to say that the job has ended there. A user who has no patience has the
/// warden kill this process soon, so less then; all of it is less than the warden grants.
constexpr milliseconds kTimeForLastWords{3000};
constexpr milliseconds kImpatience{1000};
constexpr milliseconds kImpatienceWithEngine{500};

Clock::time_point after(Clock::time_point begin, events::Seconds delay) {
  return begin + std::chrono::duration_cast<Clock::duration>(delay);
}

std::vector<int> all_hosts(const AgentPool& pool) {
  std::vector<int> hosts(static_cast<std::size_t>(pool.size()));
  std::iota(hosts.begin(), hosts.end(), 0);
  return hosts;
}

}  // namespace

Coordinator::Coordinator(const HostsJob& job, const Engine& engine, Signals& signals,
                         events::JobSink& sink, int warden)
    : job_(job),
      engine_(engine),
      signals_(signals),
      sink_(sink),
      warden_(warden),
      pool_(engine, job.hosts, job.secret, job.environment, signals.original_mask()),
      check_(pool_, job),
      reports_(job.run_dir),
      hosts_(job.hosts.size()),
      log_(job.events_file.empty()
               ? -1
               : ::open(job.events_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {
}

Coordinator::~Coordinator() {
  pool_.shut_down(waits_for_reader_ ? AgentPool::kTimeToQuit : kImpatienceWithEngine);
}

std::vector<HostReport> Coordinator::check() {
  const auto all = all_hosts(pool_);
  pool_.start(all);
  check_.begin(all);
  is_checking_ = true;
  while (!check_.is_done() && !interrupted_by_ && !warden_gone_) wait_for_something();
  is_checking_ = false;
  return check_.reports();
}

std::optional<int> Coordinator::interrupted() const {
  if (interrupted_by_) return 128 + *interrupted_by_;
  if (warden_gone_) return 128 + SIGKILL;
  return std::nullopt;
}

std::vector<topology::Machine> Coordinator::machines() const {
  std::vector<topology::Machine> machines;
  for (int host = 0; host < pool_.size(); ++host) {
    machines.push_back(pool_.link(host).hello->machine);
  }
  return machines;
}

int Coordinator::run(const JobPlan& plan) {
  const auto begin = Clock::now();
  const auto end = [&](int code) {
    sink_.on(events::JobEnded{.exit_code = code,
                              .restarts = attempt_.number,
                              .run_time = Clock::now() - begin,
                              .step = step()});
  };
  try {
    end(run_attempts(plan));
  } catch (const Error& error) {
    end(lockstep::exit_code(error.kind()));
    throw;
  }
  wait_for_reader();
  return exit_code();
}

int Coordinator::run_attempts(const JobPlan& plan) {
  for (int number = 0;; ++number) {
    run_attempt(plan, number);
    if (attempt_.error) throw *attempt_.error;
    const bool has_failed = attempt_.failed || attempt_.lost;
    if (!has_failed || !may_restart() || !bring_hosts_back()) break;
    sink_.on(
        events::JobRestarting{.restart = number + 1,
                              .max_restarts = job_.max_restarts,
                              .step = is_state_kept() && !attempt_.lost ? step() : std::nullopt,
                              .instance = cause()});
  }
  wait_for_reader();
  return exit_code();
}

bool Coordinator::may_restart() const {
  return attempt_.number < job_.max_restarts && !attempt_.has_survivors && !interrupted_by_ &&
         !warden_gone_ && sink_.output_error() == 0;
}

void Coordinator::run_attempt(const JobPlan& plan, int number) {
  attempt_ = {};
  attempt_.number = number;
  start_attempt(plan);
  while (!is_over()) wait_for_something();
  attempt_.is_running = false;
  if (attempt_.failed && !attempt_.is_reported) report_without_agent();
  wait_for_reader();
  if (attempt_.failed || attempt_.lost) report_victims();
}

void Coordinator::start_attempt(const JobPlan& plan) {
  for (const auto& place : plan.placement.instances) {
    attempt_.instances.push_back(
        {.host = place.host, .host_name = pool_.link(place.host).name, .started = Clock::now()});
  }
  attempt_.is_running = true;
  for (int host = 0; host < pool_.size(); ++host) {
    auto& state = hosts_[static_cast<std::size_t>(host)];
    state = {.is_kept = state.is_kept, .step = state.step};
    pool_.send(host, start_message(plan, host));
  }
}

Message Coordinator::start_message(const JobPlan& plan, int host) const {
  auto hosts = check_.hosts();
  for (int i = 0; i < std::ssize(hosts); ++i) {
    hosts[static_cast<std::size_t>(i)].num_instances =
        static_cast<int>(plan.placement.on_host(i).size());
  }
  auto instances = Message::array();
  for (const auto& place : plan.placement.on_host(host)) {
    auto planned = plan.instances[static_cast<std::size_t>(place.instance)];
    planned.identity.job_id = job_.job_id;
    planned.identity.restart_count = attempt_.number;
    if (hosts.size() > 1) planned.identity.hosts = hosts;
    planned.identity.host = host;
    instances.push_back(to_message(planned));
  }
  return {{"do", "start"},
          {"attempt", attempt_.number},
          {"instances", std::move(instances)},
          {"variables", plan.environment},
          {"master", hosts.front().address},
          {"master_port", check_.master_port()},
          {"mpi", job_.joins_mpi}};
}

bool Coordinator::is_over() const {
  return std::ranges::all_of(hosts_,
                             [](const HostState& host) { return host.is_over || host.is_lost; });
}

/// Where instances have given up on one that was late, that one; else who failed; nobody where a
/// host was lost.
std::optional<int> Coordinator::cause() const {
  if (!attempt_.failed) return std::nullopt;
  const auto& failed = attempt_.instances[static_cast<std::size_t>(*attempt_.failed)];
  const bool gave_up =
      failed.status && failed.status->shell_code() == lockstep::exit_code(ErrorKind::Timeout);
  const bool is_known = failed.given_up >= 0 && failed.given_up < std::ssize(attempt_.instances);
  return gave_up && is_known ? failed.given_up : *attempt_.failed;
}

/// As a supervisor counts. A lost host counts as what was seen of it: nothing for too long, or the
/// end of its connection.
int Coordinator::exit_code() const {
  if (attempt_.failed) {
    return attempt_.instances[static_cast<std::size_t>(*attempt_.failed)].status->shell_code();
  }
  if (attempt_.lost) {
    return lockstep::exit_code(attempt_.lost->silent ? ErrorKind::Timeout : ErrorKind::PeerLost);
  }
  const int output_error = sink_.output_error();
  if (output_error == EPIPE) return 128 + SIGPIPE;
  if (output_error != 0) return lockstep::exit_code(ErrorKind::Io);
  const auto& all = attempt_.instances;
  const auto stopped = [](const auto& one) { return one.status && has_stopped(*one.status); };
  const auto ended_well = [&](const auto& one) {
    return one.status && (one.status->success() || has_stopped(*one.status));
  };
  if (std::ranges::any_of(all, stopped) &&
      (!interrupted_by_ || std::ranges::all_of(all, ended_well))) {
    return lockstep::exit_code(ErrorKind::Stopped);
  }
  return interrupted_by_ ? 128 + *interrupted_by_ : 0;
}

/// The last one that all hosts have.
std::optional<std::int64_t> Coordinator::step() const {
  const auto least = std::ranges::min(hosts_, {}, &HostState::step).step;
  return least >= 0 ? std::optional(least) : std::nullopt;
}

bool Coordinator::is_state_kept() const {
  return std::ranges::all_of(hosts_, &HostState::is_kept);
}

void Coordinator::wait_for_something(std::optional<Clock::time_point> until) {
  auto fds = pool_.descriptors();
  fds.push_back({signals_.fd(), POLLIN, 0});
  fds.push_back({warden_gone_ ? -1 : warden_, POLLIN, 0});
  const auto warden = fds.size() - 1;
  for (const int fd : sink_.blocked_on()) fds.push_back({fd, POLLOUT, 0});
  auto time = pool_.next_time();
  if (until) time = std::min(time, *until);
  if (attempt_.is_running && attempt_.deadline) time = std::min(time, *attempt_.deadline);
  if (attempt_.is_running && attempt_.give_up > Clock::now()) {
    time = std::min(time, *attempt_.give_up);
  }
  const auto left = std::chrono::ceil<milliseconds>(time - Clock::now());
  ::poll(fds.data(), fds.size(), static_cast<int>(std::max(milliseconds(0), left).count()));

  if (fds[warden].revents != 0 && !warden_gone_) {
    warden_gone_ = true;
    begin_killing(/*drops_output=*/true);
  }
  while (const auto signal = signals_.take()) handle_signal(*signal);
  for (const auto& [host, message] : pool_.attend()) handle(host, message);
  if (is_checking_) check_.advance();
  if (attempt_.is_running) look_for_lost_hosts();
  if (attempt_.is_running) act_on_time();
  if (attempt_.is_running) give_up_hosts();
  sink_.resume();
  acknowledge_output();
  if (sink_.output_error() != 0 && attempt_.is_running && attempt_.phase == Phase::Running) {
    begin_ending();
  }
}

void Coordinator::handle_signal(int signal) {
  if (signal == SIGCHLD) {
    pool_.deaths().reap_others();
  } else if (ends_job(signal)) {
    interrupt(signal);
  } else {
    pool_.send_to_all({{"do", "signal"}, {"signal", signal}});
  }
}

/// The first time gently, the second time at once. SIGQUIT is never gentle.
///
/// A scheduler tells all steps of a job, and often the batch script too, which passes it on: what
/// agents have told first the launcher may hear once more.
void Coordinator::interrupt(int signal) {
  if (std::exchange(is_told_by_agent_, false) && signal == interrupted_by_) return;
  const bool is_repeated = interrupted_by_ && Clock::now() - interrupted_at_ < kSameSignal;
  if (is_repeated && signal != SIGQUIT) return;
  const bool kills = interrupted_by_.has_value() || signal == SIGQUIT;
  if (!interrupted_by_) interrupted_by_ = signal;
  interrupted_at_ = Clock::now();
  if (kills) waits_for_reader_ = false;
  if (!attempt_.is_running) return;
  sink_.on(events::JobInterrupted{signal, kills ? events::Seconds(0) : job_.grace_period});
  if (kills) {
    begin_killing(/*drops_output=*/true);
  } else if (attempt_.phase == Phase::Running) {
    begin_ending();
  }
}

void Coordinator::handle(int host, const Message& message) {
  // What a host that was given up has said before is of no use any more.
  if (hosts_[static_cast<std::size_t>(host)].is_lost && attempt_.is_running) return;
  const auto kind = kind_of(message);
  const auto fail = [&](const char* why) {
    pool_.fail(host, fmt::format("its agent says '{}', which cannot be read: {}", kind, why));
    if (attempt_.is_running) lose(host, std::nullopt);
  };
  try {
    if (is_checking_) check_.note(host, message);
    auto& state = hosts_[static_cast<std::size_t>(host)];
    if (const auto event = to_event(message)) {
      on_event(host, message, *event);
    } else if (kind == "alive" && message.contains("step")) {
      state.step = message.at("step").get<std::int64_t>();
      state.is_kept = message.at("kept").get<bool>();
    } else if (kind == "log") {
      append_log(message.at("lines").get<std::string>());
    } else if (kind == "report") {
      reports_.write(host, message.at("text").get<std::string>());
    } else if (kind == "over" || (kind == "error" && attempt_.is_running)) {
      note_over(host, message);
    } else if (kind == "leaving" && attempt_.is_running && !state.is_lost) {
      note_leaving(host);
    } else if (kind == "signalled" && engine_.kind() == EngineKind::Srun && !interrupted_by_ &&
               !attempt_.failed && !attempt_.lost) {
      // Slurm tells the steps of a job to end. mpirun tells its processes too where one host is
      // gone, which is no wish of the user's.
      const int signal = message.at("signal").get<int>();
      if (!ends_job(signal)) return;
      interrupt(signal);
      is_told_by_agent_ = true;
    }
  } catch (const Message::exception& error) {
    fail(error.what());
  } catch (const std::out_of_range& error) {
    fail(error.what());
  }
}

void Coordinator::check_instance(int host, int instance) const {
  const bool is_known = instance >= 0 && instance < std::ssize(attempt_.instances);
  if (!is_known || attempt_.instances[static_cast<std::size_t>(instance)].host != host) {
    throw std::out_of_range(fmt::format("there is no instance {} on it", instance));
  }
}

void Coordinator::on_event(int host, const Message& message, const HostEvent& event) {
  std::visit(
      [&](const auto& known) {
        if constexpr (requires { known.instance; }) check_instance(host, known.instance);
      },
      event);
  if (const auto* output = std::get_if<events::InstanceOutput>(&event)) {
    hosts_[static_cast<std::size_t>(host)].taken += output->lines.size() + output->progress.size();
  }
  if (const auto* started = std::get_if<events::InstanceStarted>(&event)) {
    attempt_.instances[static_cast<std::size_t>(started->instance)].pid = started->pid;
  }
  if (std::holds_alternative<events::InstanceFailed>(event)) attempt_.is_reported = true;
  std::visit([&](const auto& known) { sink_.on(known); }, event);
  if (const auto* ended = std::get_if<events::InstanceEnded>(&event)) {
    note_end(host, message, *ended);
  }
}

void Coordinator::note_end(int host, const Message& message, const events::InstanceEnded& event) {
  auto& instance = attempt_.instances[static_cast<std::size_t>(event.instance)];
  instance.status = event.status;
  instance.given_up = message.at("given_up").get<int>();
  auto& state = hosts_[static_cast<std::size_t>(host)];
  state.is_kept = message.at("kept").get<bool>();
  state.step = event.step.value_or(-1);
  if (attempt_.phase != Phase::Running) return;
  attempt_.verdict.add(event.instance, event.status);
  // The program has told all of its instances to stop: they will, in their own way.
  if (has_stopped(event.status) && !attempt_.deadline) {
    attempt_.deadline = after(Clock::now(), job_.grace_period);
  }
  judge();
}

void Coordinator::note_over(int host, const Message& message) {
  auto& state = hosts_[static_cast<std::size_t>(host)];
  if (message.contains("step")) {
    state.step = message.at("step").get<std::int64_t>();
    state.is_kept = message.at("kept").get<bool>();
    attempt_.has_survivors |= message.at("survivors").get<bool>();
  }
  if (!message.contains("text")) {
    state.is_over = true;
    return;
  }
  const int kind = message.at("kind").get<int>();
  const bool is_known = kind >= 0 && kind <= static_cast<int>(ErrorKind::Bug);
  const Error error(
      is_known ? static_cast<ErrorKind>(kind) : ErrorKind::Bug,
      fmt::format("host {}: {}", pool_.link(host).name, message.at("text").get<std::string>()),
      message.at("hint").get<std::string>());
  state.is_over = true;
  if (attempt_.error) return;
  attempt_.error = error;
  begin_killing(/*drops_output=*/false);
}

/// Only what has gone out makes room for more.
void Coordinator::acknowledge_output() {
  if (!sink_.blocked_on().empty()) return;
  for (int host = 0; host < pool_.size(); ++host) {
    auto& taken = hosts_[static_cast<std::size_t>(host)].taken;
    if (taken == 0) continue;
    pool_.send(host, {{"do", "took"}, {"bytes", taken}});
    taken = 0;
  }
}

void Coordinator::append_log(const std::string& lines) {
  // One that cannot be written ends nothing.
  if (log_ && ::write(log_.get(), lines.data(), lines.size()) < 0 && errno != EINTR) log_.reset();
}

bool Coordinator::any_running() const {
  return std::ranges::any_of(attempt_.instances, [&](const InstanceState& instance) {
    return !instance.status && !hosts_[static_cast<std::size_t>(instance.host)].is_lost;
  });
}

void Coordinator::judge() {
  const auto& verdict = attempt_.verdict;
  if (verdict.cause() || (verdict.best_guess() && !any_running())) {
    fail(*verdict.best_guess());
  } else if (verdict.waiting_for_cause()) {
    const auto end = Clock::now() + kVictimPatience;
    attempt_.deadline = std::min(attempt_.deadline.value_or(end), end);
  }
}

void Coordinator::act_on_time() {
  if (!attempt_.deadline || Clock::now() < *attempt_.deadline) return;
  attempt_.deadline.reset();
  if (attempt_.phase != Phase::Running) return;
  if (const auto cause = attempt_.verdict.best_guess()) return fail(*cause);
  begin_ending();
}

/// Its agent reports it, with what it wrote last.
void Coordinator::fail(int instance) {
  const auto& cause = attempt_.instances[static_cast<std::size_t>(instance)];
  if (const int host = silent_host(); host >= 0 && is_of_waiting(*cause.status)) {
    return lose(host, pool_.silence(host));
  }
  attempt_.failed = instance;
  pool_.send(cause.host, {{"do", "report"}, {"instance", instance}});
  // What the others would save is saved.
  if (is_state_kept() && may_restart()) return begin_killing(/*drops_output=*/false);
  begin_ending();
}

void Coordinator::report_without_agent() {
  const auto& cause = attempt_.instances[static_cast<std::size_t>(*attempt_.failed)];
  sink_.on(events::InstanceFailed{.instance = *attempt_.failed,
                                  .host = cause.host_name,
                                  .pid = cause.pid,
                                  .status = *cause.status,
                                  .run_time = Clock::now() - cause.started,
                                  .last_error_lines = {},
                                  .step = step()});
}

void Coordinator::begin_ending() {
  attempt_.phase = Phase::Ending;
  attempt_.give_up = after(Clock::now(), job_.grace_period + kTimeForLastWords);
  pool_.send_to_all({{"do", "end"}});
}

void Coordinator::begin_killing(bool drops_output) {
  attempt_.phase = Phase::Killing;
  if (drops_output) waits_for_reader_ = false;
  const auto end = Clock::now() + (drops_output ? kImpatience : kTimeForLastWords);
  attempt_.give_up = std::min(attempt_.give_up.value_or(end), end);
  pool_.send_to_all({{"do", "kill"}, {"drop", drops_output}});
}

void Coordinator::report_victims() {
  events::VictimsEnded event{attempt_.failed.value_or(0), {}};
  if (attempt_.lost) event.lost_host = attempt_.lost->host;
  for (int i = 0; i < std::ssize(attempt_.instances); ++i) {
    const auto& instance = attempt_.instances[static_cast<std::size_t>(i)];
    const bool ended_well = instance.status && instance.status->success();
    const bool is_lost = hosts_[static_cast<std::size_t>(instance.host)].is_lost;
    if (attempt_.failed != i && !ended_well && !is_lost) {
      event.victims.push_back({i, instance.status});
    }
  }
  if (!event.victims.empty()) sink_.on(event);
}

/// Only whoever reads our output may keep us, until we are told not to wait, or the grace period of
/// an interrupted job is over.
void Coordinator::wait_for_reader() {
  while (waits_for_reader_ && !warden_gone_ && sink_.output_error() == 0 &&
         !sink_.blocked_on().empty()) {
    std::optional<Clock::time_point> deadline;
    if (interrupted_by_) deadline = after(interrupted_at_, job_.grace_period);
    if (deadline && Clock::now() >= *deadline) return;
    wait_for_something(deadline);
  }
}

}  // namespace lockstep::launch

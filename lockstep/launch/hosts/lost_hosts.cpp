// How a coordinator finds out that a host is gone, and has it back.

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "lockstep/launch/hosts/coordinator.h"

namespace lockstep::launch {
namespace {

/// A host that is silent for so long, where its peers have given up waiting, is what they waited
/// for.
constexpr std::chrono::seconds kSuspicious{3};
constexpr std::chrono::seconds kRetryInterval{2};
/// More than agents are ever silent for that are well.
constexpr std::chrono::seconds kUnwell{2};

}  // namespace

/// Whether an instance has ended because it waited for somebody in vain.
bool Coordinator::is_of_waiting(const events::ExitStatus& status) {
  return status == events::ExitStatus{.code = lockstep::exit_code(ErrorKind::Timeout)} ||
         status == events::ExitStatus{.code = lockstep::exit_code(ErrorKind::PeerLost)};
}

/// The one that has been silent longest, where that is suspicious; -1: none.
int Coordinator::silent_host() const {
  int found = -1;
  Clock::duration longest = kSuspicious;
  for (int host = 0; host < pool_.size(); ++host) {
    if (hosts_[static_cast<std::size_t>(host)].is_over || !pool_.is_ready(host)) continue;
    if (pool_.silence(host) < longest) continue;
    longest = pool_.silence(host);
    found = host;
  }
  return found;
}

void Coordinator::look_for_lost_hosts() {
  for (int host = 0; host < pool_.size(); ++host) {
    auto& state = hosts_[static_cast<std::size_t>(host)];
    if (state.is_lost || state.is_over) continue;
    if (!pool_.is_ready(host)) {
      lose(host, std::nullopt);
      continue;
    }
    const events::Seconds silent = pool_.silence(host);
    if (job_.stall_timeout.count() > 0 && silent > job_.stall_timeout) {
      lose(host, silent);
    } else if (silent > kLate && !state.is_late) {
      state.is_late = true;
      const auto& link = pool_.link(host);
      sink_.on(events::HostLate{.host = link.name, .address = link.address, .silent = silent});
    } else if (silent < kLate) {
      state.is_late = false;
    }
  }
}

/// The job is ending, and hosts have had their time to say that it has ended there. One that is
/// well may still wait for whoever reads our output; not where the user waits for the end.
void Coordinator::give_up_hosts() {
  if (!attempt_.give_up || Clock::now() < *attempt_.give_up) return;
  const auto waited = Clock::now() - interrupted_at_;
  const bool is_awaited = !waits_for_reader_ || (interrupted_by_ && waited > job_.grace_period);
  for (int host = 0; host < pool_.size(); ++host) {
    const auto& state = hosts_[static_cast<std::size_t>(host)];
    if (state.is_lost || state.is_over) continue;
    if (!is_awaited && pool_.silence(host) < kUnwell) continue;
    sink_.on(events::Warning{
        fmt::format("host {} does not say that the job has ended there: it is given up",
                    pool_.link(host).name)});
    lose(host, pool_.silence(host));
  }
}

/// The first one that is lost while the job is meant to run is the cause; all that come later are
/// victims of what followed.
void Coordinator::lose(int host, std::optional<events::Seconds> silent) {
  auto& state = hosts_[static_cast<std::size_t>(host)];
  state.is_lost = true;
  state.is_kept = false;
  const auto& link = pool_.link(host);
  events::HostLost event{.host = link.name,
                         .address = link.address,
                         .silent = silent,
                         .why = link.problem,
                         .last_lines = silent ? std::vector<std::string>{} : link.last_lines,
                         .step = step()};
  for (int i = 0; i < std::ssize(attempt_.instances); ++i) {
    if (attempt_.instances[static_cast<std::size_t>(i)].host == host) event.instances.push_back(i);
  }
  pool_.give_up(host);
  reports_.remove(host);
  if (attempt_.phase != Phase::Running) return;
  attempt_.lost = event;
  sink_.on(event);
  if (may_restart() && is_state_kept_elsewhere(host)) return begin_killing(/*drops_output=*/false);
  begin_ending();
}

/// An agent is being killed. mpirun does that on all hosts when it has lost one of them, which is
/// the cause then.
void Coordinator::note_leaving(int host) {
  const bool is_running = attempt_.phase == Phase::Running;
  if (const int silent = silent_host(); silent >= 0 && is_running) {
    lose(silent, pool_.silence(silent));
  }
  pool_.link(host).problem = "its agent was killed";
  if (!hosts_[static_cast<std::size_t>(host)].is_lost) lose(host, std::nullopt);
}

bool Coordinator::is_state_kept_elsewhere(int host) const {
  for (int other = 0; other < pool_.size(); ++other) {
    if (other != host && !hosts_[static_cast<std::size_t>(other)].is_kept) return false;
  }
  return pool_.size() > 1;
}

/// Those that have to be started anew. One that has come back may not be fit yet.
std::vector<int> Coordinator::find_absent_hosts() {
  const auto reports = check_.reports();
  std::vector<int> absent;
  for (int host = 0; host < pool_.size(); ++host) {
    const auto& report = reports[static_cast<std::size_t>(host)];
    const bool is_unfit = !report.build_problem.empty() || !report.program_problem.empty();
    if (pool_.is_ready(host) && is_unfit) pool_.give_up(host);
    if (pool_.is_ready(host)) continue;
    hosts_[static_cast<std::size_t>(host)].is_kept = false;
    absent.push_back(host);
  }
  return absent;
}

/// Returns whether all hosts are there, and the job can be started again.
bool Coordinator::bring_hosts_back() {
  auto absent = find_absent_hosts();
  if (absent.empty()) return true;
  const auto deadline = Clock::now() + kPatienceWithHosts;
  std::vector<int> told_of;
  while (Clock::now() < deadline && !interrupted_by_ && !warden_gone_) {
    // Where all are started anew, others are absent only because one is.
    const bool tells = told_of.empty() || !engine_.starts_all_at_once();
    if (tells && !std::ranges::includes(told_of, absent)) {
      tell_of_absent_hosts(absent, deadline);
      told_of = absent;
    }
    if (try_hosts(std::move(absent))) return true;
    wait_for_hosts([next = Clock::now() + kRetryInterval] { return Clock::now() >= next; });
    absent = find_absent_hosts();
  }
  return false;
}

void Coordinator::tell_of_absent_hosts(const std::vector<int>& absent, Clock::time_point deadline) {
  const auto left = std::chrono::ceil<std::chrono::seconds>(deadline - Clock::now());
  events::HostsAwaited event{.hosts = {}, .patience = left};
  for (const int host : absent) event.hosts.push_back(pool_.link(host).name);
  sink_.on(event);
}

/// While one host is waited for, another may be lost, too: nobody else looks after it.
void Coordinator::wait_for_hosts(const std::function<bool()>& is_over) {
  while (!is_over() && !interrupted_by_ && !warden_gone_) {
    wait_for_something(Clock::now() + kRetryInterval);
    for (int host = 0; host < pool_.size(); ++host) {
      const bool is_silent =
          job_.stall_timeout.count() > 0 && pool_.silence(host) > job_.stall_timeout;
      if (!pool_.is_ready(host) || !is_silent) continue;
      pool_.give_up(host);
      pool_.link(host).problem = "its agent says nothing any more";
    }
  }
}

/// Where there is nobody to start, ways between hosts are looked for once more.
bool Coordinator::try_hosts(std::vector<int> tried) {
  if (engine_.starts_all_at_once()) {
    pool_.shut_down();
    tried.resize(static_cast<std::size_t>(pool_.size()));
    std::iota(tried.begin(), tried.end(), 0);
    // What was kept has gone with the agents.
    std::ranges::fill(hosts_, HostState{});
  }
  pool_.start(tried);
  check_.begin(tried);
  is_checking_ = true;
  wait_for_hosts([&] { return check_.is_done(); });
  is_checking_ = false;
  return !interrupted_by_ && !warden_gone_ && check_.all_are_good();
}

}  // namespace lockstep::launch

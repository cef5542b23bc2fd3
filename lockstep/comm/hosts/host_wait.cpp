#include "lockstep/comm/hosts/host_wait.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

namespace lockstep::comm::hosts {
namespace {

using namespace std::chrono_literals;

constexpr auto kSignOfAStop = 1s;
/// Leaders tell each second that they are there.
constexpr auto kSilence = 5s;
/// A host that is there finds out by itself which of its instances is late, and can say more.
constexpr auto kTimeForItsVerdict = 2s;
/// A host that has left may have sent, before that, all that is waited for: it is given up when
/// nothing more arrives.
constexpr auto kTimeToArrive = 2s;
/// Ages of heartbeats are told with the time that they travel: what is hardly newer may be an echo.
constexpr auto kEcho = 500ms;

host::Clock::time_point time_of(const std::atomic<std::int64_t>& nanoseconds) {
  return host::Clock::time_point(
      host::Clock::duration(nanoseconds.load(std::memory_order_relaxed)));
}

double seconds_since(host::Clock::time_point begin) {
  return std::chrono::duration<double>(host::Clock::now() - begin).count();
}

}  // namespace

HostWait::HostWait(host::Member& member, const HostMap& map, std::vector<int> hosts)
    : member_(member), map_(map), hosts_(std::move(hosts)), moved_(hosts_.size()) {}

void HostWait::begin(const std::string& title, std::uint64_t operation) {
  title_ = title;
  operation_ = operation;
  begin_ = last_look_ = Clock::now();
  std::ranges::fill(moved_, Clock::time_point());
}

HostWait::Sight HostWait::sight_of(int place) const {
  const int host = hosts_[static_cast<std::size_t>(place)];
  const auto& slot = member_.memory().header().hosts[static_cast<std::size_t>(host)];
  return {host, time_of(slot.heard_ns), time_of(slot.heartbeat_ns), time_of(slot.left_ns),
          moved_[static_cast<std::size_t>(place)]};
}

void HostWait::note_moved(std::span<const int> waiting_for, Clock::time_point now) {
  for (std::size_t place = 0; place < moved_.size(); ++place) {
    const auto found = std::ranges::find(waiting_for, static_cast<int>(place));
    if (found == waiting_for.end()) moved_[place] = now;
  }
}

bool HostWait::is_silent(const Sight& sight) const {
  return Clock::now() - sight.heard > kSilence;
}

void HostWait::look(std::span<const int> waiting_for) {
  member_.note_wait_for_hosts();
  member_.throw_if_failed();
  // Who was stopped itself, with the whole job perhaps, has not waited meanwhile.
  const auto now = Clock::now();
  if (now - std::exchange(last_look_, now) > kSignOfAStop) begin_ = now;
  note_moved(waiting_for, now);

  const auto& options = member_.options();
  auto newest_heartbeat = Clock::time_point();
  for (const int place : waiting_for) {
    const auto sight = sight_of(place);
    newest_heartbeat = std::max(newest_heartbeat, sight.heartbeat);
    const auto waited = now - std::max({begin_, sight.heartbeat, sight.moved});
    const auto patience = options.stall_timeout + (is_silent(sight) ? 0s : kTimeForItsVerdict);
    const bool has_left = sight.left != Clock::time_point() &&
                          now - std::max(sight.left, sight.moved) > kTimeToArrive;
    const bool is_overdue = options.stall_timeout.count() > 0 && waited >= patience;
    if (has_left || is_overdue) give_up(sight);
    if (waited >= options.warn_after) warn_once(sight);
  }
  if (newest_heartbeat > member_.last_heartbeat(member_.instance()) + kEcho) {
    member_.pass_on_heartbeat(newest_heartbeat);
  }
}

std::string HostWait::describe(const Sight& sight) const {
  const auto& name = map_.hosts[static_cast<std::size_t>(sight.host)].name;
  auto text = fmt::format("{}: host {} has sent nothing for {:.0f} s", title_, name,
                          seconds_since(std::max(begin_, sight.moved)));
  if (sight.heard == Clock::time_point()) return text + "; it was never heard of";
  return text + fmt::format("; it was last heard of {:.0f} s ago", seconds_since(sight.heard));
}

void HostWait::report(const Sight& sight, Stall::Kind kind, const std::string& what) const {
  const auto& instances = map_.hosts[static_cast<std::size_t>(sight.host)].instances;
  const auto& options = member_.options();
  if (options.stalled) options.stalled({instances.front(), kind, what});
}

void HostWait::give_up(const Sight& sight) {
  const auto& name = map_.hosts[static_cast<std::size_t>(sight.host)].name;
  if (sight.left != Clock::time_point()) {
    member_.fail(Error(ErrorKind::PeerLost,
                       fmt::format("{}: host {} has left the job", title_, name),
                       "its own output says why; this instance is only a victim"));
  }
  const bool silent = is_silent(sight);
  auto what = describe(sight);
  what += silent ? ": the host, its first instance or the network is down"
                 : ": it is there, but its instances are late";
  report(sight, Stall::Kind::Overdue, what);
  member_.fail(Error(ErrorKind::Timeout, what,
                     silent ? fmt::format("check that host {} runs and can be reached", name)
                            : "raise --stall-timeout, or let an instance that works long call "
                              "Communicator::heartbeat"));
}

/// One line for each operation.
void HostWait::warn_once(const Sight& sight) {
  if (std::exchange(last_warned_, operation_) == operation_) return;
  const auto what = describe(sight);
  if (member_.options().warn) member_.options().warn(what);
  report(sight, Stall::Kind::Late, what);
}

}  // namespace lockstep::comm::hosts

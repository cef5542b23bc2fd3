#include "lockstep/comm/hosts/host_watch.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep::comm::hosts {
namespace {

using namespace std::chrono_literals;
using host::Clock;

constexpr auto kPeriod = 100ms;
constexpr auto kAlivePeriod = 1s;

void store(std::atomic<std::int64_t>& slot, Clock::time_point time) {
  slot.store(time.time_since_epoch().count(), std::memory_order_relaxed);
}

}  // namespace

HostWatch::HostWatch(host::Member& member, Fabric& fabric, const HostMap& map)
    : member_(member), fabric_(fabric), map_(map) {
  // Who is here at the beginning has been heard of.
  for (std::size_t host = 0; host < map_.hosts.size(); ++host) {
    store(member_.memory().header().hosts[host].heard_ns, Clock::now());
  }
  thread_ = std::thread([this] { serve(); });
}

HostWatch::~HostWatch() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (!tell_verdict()) fabric_.tell({.kind = Note::Kind::Left, .host = fabric_.host()});
}

void HostWatch::serve() {
  std::unique_lock lock(mutex_);
  do {
    lock.unlock();
    for (const auto& note : fabric_.take_notes()) take(note);
    tell_verdict();
    if (Clock::now() - last_alive_ >= kAlivePeriod) tell_alive();
    lock.lock();
  } while (!changed_.wait_for(lock, kPeriod, [this] { return is_ending_; }));
}

void HostWatch::take(const Note& note) {
  auto& slot = member_.memory().header().hosts[static_cast<std::size_t>(note.host)];
  const auto now = Clock::now();
  switch (note.kind) {
    case Note::Kind::Alive:
      store(slot.heard_ns, now);
      if (note.quiet_for.count() >= 0) {
        store(slot.heartbeat_ns, now - std::chrono::duration_cast<Clock::duration>(note.quiet_for));
      }
      break;
    case Note::Kind::Failed:
      if (note.error) member_.record(*note.error);
      break;
    case Note::Kind::Left:
      store(slot.left_ns, now);
      break;
    case Note::Kind::Lost:
      take_loss(note.host);
      break;
  }
}

void HostWatch::take_loss(int host) {
  const auto& lost = map_.hosts[static_cast<std::size_t>(host)];
  member_.record(
      Error(ErrorKind::PeerLost,
            fmt::format("host {} is gone: its first instance, {}, has closed its connections "
                        "without a word",
                        lost.name, lost.instances.front()),
            "its own output says why; this instance is only a victim"));
}

/// Returns whether there is one.
bool HostWatch::tell_verdict() {
  if (has_told_verdict_) return true;
  const auto verdict = member_.verdict();
  if (!verdict) return false;
  fabric_.tell({.kind = Note::Kind::Failed, .host = fabric_.host(), .error = verdict});
  has_told_verdict_ = true;
  return true;
}

void HostWatch::tell_alive() {
  auto newest = Clock::time_point();
  for (const int instance : map_.hosts[static_cast<std::size_t>(fabric_.host())].instances) {
    newest = std::max(newest, member_.last_heartbeat(instance));
  }
  last_alive_ = Clock::now();
  const auto quiet_for =
      newest == Clock::time_point()
          ? std::chrono::nanoseconds(-1)
          : std::max(std::chrono::nanoseconds(0), std::chrono::nanoseconds(last_alive_ - newest));
  fabric_.tell({.kind = Note::Kind::Alive, .host = fabric_.host(), .quiet_for = quiet_for});
}

}  // namespace lockstep::comm::hosts

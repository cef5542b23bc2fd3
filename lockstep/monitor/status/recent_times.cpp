#include "lockstep/monitor/status/recent_times.h"

#include <algorithm>
#include <utility>

namespace lockstep::monitor {
namespace {

constexpr double kWindow = 10;
constexpr double kLeast = 2;
constexpr double kBetweenMarks = 0.5;

/// A page may hold any numbers, also smaller ones than before.
PhaseSeconds difference(const PhaseSeconds& now, const PhaseSeconds& before) {
  return {.data = std::max(0.0, now.data - before.data),
          .compute = std::max(0.0, now.compute - before.compute),
          .reduce = std::max(0.0, now.reduce - before.reduce),
          .idle = std::max(0.0, now.idle - before.idle)};
}

}  // namespace

double total(const PhaseSeconds& seconds) noexcept {
  return seconds.data + seconds.compute + seconds.reduce + seconds.idle;
}

std::int64_t steps_so_far(const InstanceState& state) noexcept {
  return std::max<std::int64_t>(0, state.epoch - 1) * state.steps_of_epoch + state.step;
}

RecentTimes::Key RecentTimes::key_of(const WatchedJob& job, const InstanceFacts& facts) {
  return {job.user, job.id, facts.instance, facts.process, facts.start_ticks};
}

void RecentTimes::add(const HostSnapshot& snapshot) {
  std::map<Key, std::deque<Mark>> present;
  for (const auto& job : snapshot.jobs) {
    for (const auto& instance : job.instances) {
      const auto& state = instance.found.state;
      const auto key = key_of(job, instance.found.facts);
      auto& marks = present[key];
      if (const auto known = marks_.find(key); known != marks_.end()) {
        marks = std::move(known->second);
      }
      const auto now = total(state.seconds);
      if (marks.empty() || now - total(marks.back().seconds) >= kBetweenMarks) {
        marks.push_back({state.seconds, steps_so_far(state)});
      }
      while (marks.size() > 1 && now - total(marks[1].seconds) >= kWindow) marks.pop_front();
    }
  }
  marks_ = std::move(present);
}

RecentTime RecentTimes::of(const WatchedJob& job, const WatchedInstance& instance) const {
  const auto& state = instance.found.state;
  const auto found = marks_.find(key_of(job, instance.found.facts));
  if (found == marks_.end()) return {.seconds = state.seconds};
  const auto& oldest = found->second.front();
  const auto passed = total(state.seconds) - total(oldest.seconds);
  const auto steps = steps_so_far(state) - oldest.steps;
  return {.seconds = passed >= kLeast ? difference(state.seconds, oldest.seconds) : state.seconds,
          .seconds_per_step = steps > 0 ? passed / static_cast<double>(steps) : 0};
}

}  // namespace lockstep::monitor

#include "lockstep/launch/supervise/fault_injector.h"

#include <signal.h>

#include <algorithm>

namespace lockstep::launch {

using Clock = FaultInjector::Clock;

FaultInjector::FaultInjector(ChaosOptions options, Clock::time_point begin)
    : options_(std::move(options)) {
  draw(begin);
}

void FaultInjector::draw(Clock::time_point from) {
  fault_ = fault_of(options_, next_index_++);
  due_ = from + std::chrono::duration_cast<Clock::duration>(fault_.gap);
}

Clock::time_point FaultInjector::next_time() const {
  auto next = due_;
  for (const auto& [instance, time] : to_continue_) next = std::min(next, time);
  return next;
}

void FaultInjector::act(Clock::time_point now, const std::vector<InstanceProcess>& instances,
                        const std::optional<std::int64_t>& step, events::JobSink& sink) {
  std::vector<const InstanceProcess*> running;
  for (const auto& process : instances) {
    if (!process.running()) continue;
    running.push_back(&process);
    const auto found = to_continue_.find(process.instance);
    if (found == to_continue_.end() || found->second > now) continue;
    ::kill(process.pid, SIGCONT);
    to_continue_.erase(found);
  }
  // What was to go on and has ended will not.
  std::erase_if(to_continue_, [&](const auto& entry) { return entry.second <= now; });
  if (due_ > now || running.empty()) return;
  const auto chosen = fault_.choose(static_cast<int>(running.size()));
  inject(now, *running[static_cast<std::size_t>(chosen)], step, sink);
  draw(now);
}

void FaultInjector::inject(Clock::time_point now, const InstanceProcess& victim,
                           const std::optional<std::int64_t>& step, events::JobSink& sink) {
  const int signal = fault_.kind == FaultKind::Kill ? SIGKILL : SIGSTOP;
  ::kill(victim.pid, signal);
  to_continue_.erase(victim.instance);
  if (fault_.kind == FaultKind::Slow) {
    to_continue_[victim.instance] =
        now + std::chrono::duration_cast<Clock::duration>(fault_.duration);
  }
  sink.on(events::FaultInjected{.instance = victim.instance,
                                .kind = std::string(name_of(fault_.kind)),
                                .signal = signal,
                                .duration = fault_.duration,
                                .step = step});
}

}  // namespace lockstep::launch

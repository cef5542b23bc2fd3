#include "lockstep/launch/supervise/stopped_instances.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>

namespace lockstep::launch {
namespace {

using Clock = InstanceProcess::Clock;

bool can_be_overdue(const InstanceProcess& process) {
  return process.running() && process.stopped_since && !process.given_up_after;
}

Clock::time_point overdue_at(const InstanceProcess& process, events::Seconds limit) {
  return *process.stopped_since + std::chrono::duration_cast<Clock::duration>(limit);
}

/// The kernel stops a process that reads a terminal which is not its own. It would wait for ever.
void warn_if_terminal(const InstanceProcess& process, int signal, events::JobSink& sink) {
  if (signal != SIGTTIN && signal != SIGTTOU) return;
  sink.on(events::Warning{
      fmt::format("instance {} (pid {}) is stopped: it uses the terminal, which instances may not; "
                  "hand it its input through a file or a pipe",
                  process.instance, process.pid)});
}

}  // namespace

void note_stops(std::vector<InstanceProcess>& instances, events::JobSink& sink) {
  for (auto& process : instances) {
    const auto pid = static_cast<id_t>(process.pid);
    while (process.running()) {
      siginfo_t info{};
      if (::waitid(P_PID, pid, &info, WSTOPPED | WCONTINUED | WNOHANG) != 0 || info.si_pid == 0) {
        break;
      }
      // Each stop begins the time anew: it had been continued, though nobody may have seen it.
      process.stopped_since.reset();
      if (info.si_code == CLD_CONTINUED) continue;
      process.stopped_since = Clock::now();
      warn_if_terminal(process, info.si_status, sink);
    }
  }
}

std::optional<Clock::time_point> next_overdue_stop(const std::vector<InstanceProcess>& instances,
                                                   events::Seconds limit) {
  std::optional<Clock::time_point> next;
  for (const auto& process : instances) {
    if (!can_be_overdue(process)) continue;
    const auto time = overdue_at(process, limit);
    next = std::min(next.value_or(time), time);
  }
  return next;
}

void give_up_stopped(std::vector<InstanceProcess>& instances, events::Seconds limit,
                     const std::optional<std::int64_t>& step, events::JobSink& sink) {
  const auto now = Clock::now();
  for (auto& process : instances) {
    if (!can_be_overdue(process) || overdue_at(process, limit) > now) continue;
    process.given_up_after = now - *process.stopped_since;
    ::kill(process.pid, SIGKILL);
    sink.on(events::InstanceStalled{.instance = process.instance,
                                    .pid = process.pid,
                                    .stopped = *process.given_up_after,
                                    .step = step});
  }
}

}  // namespace lockstep::launch

#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "lockstep/events/event_log.h"
#include "lockstep/events/job_events.h"

namespace lockstep::events {

/// Totals of a job's event log.
struct JobSummary {
  /// A failure of an instance or a host, which restarted or ended the job.
  struct Restart {
    std::string who;    ///< "instance 2", "host b"
    std::string cause;  ///< "exit code 6", "killed by SIGKILL", "stopped for 60 s", "lost"
    std::optional<std::int64_t> step{};
  };

  std::vector<Restart> restarts{};
  std::optional<Restart> failure{};          ///< after which the job was not restarted
  std::optional<std::string> interrupted{};  ///< the name of the signal that ended the job
  std::optional<int> exit_code{};            ///< unset if the log has no end
  int faults = 0;                            ///< that were injected
  int stalls = 0;
  std::set<int> stalled{};  ///< instances
  int checkpoints = 0;
  int failed_checkpoints = 0;
  std::optional<std::int64_t> last_checkpoint{};  ///< its step
  Seconds run_time{0};

  /// Whether there is anything to tell.
  bool is_eventful() const noexcept {
    return !restarts.empty() || faults + stalls + checkpoints + failed_checkpoints > 0;
  }
};

/// Adds up the entries of a log. An instance that is late, then overdue, and then given up is one
/// stall.
JobSummary summarize(std::span<const LogEntry> log);

}  // namespace lockstep::events

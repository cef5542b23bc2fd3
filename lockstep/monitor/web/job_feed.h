#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/events/event_log.h"

namespace lockstep::monitor {

/// Where the time of an instance went in the last seconds, as shares from 0 to 1.
struct TimeShares {
  double data = 0;     ///< waiting for batches
  double compute = 0;  ///< forward and backward
  double reduce = 0;   ///< gradients and the update
  double idle = 0;     ///< the rest
};

struct DashboardReplica {
  int index = 0;
  std::vector<std::string> stage_devices{};  ///< "cpu 0" for each stage; empty where unknown
};

struct DashboardInstance {
  std::string host{};
  int index = 0;
  bool is_alive = true;
  std::string phase{};  ///< "training", "stopped", "ended", …
  std::optional<int> process{};
  std::optional<std::int64_t> step{};
  std::optional<double> samples_per_second{};
  std::optional<std::int64_t> memory_mib{};
  std::optional<double> cpu_percent{};
  std::optional<TimeShares> time{};
  std::vector<DashboardReplica> replicas{};
};

/// How a job ended.
struct JobEnd {
  std::optional<int> exit_code{};  ///< of the launcher; unset if the launcher did not record it
  std::string text{};              ///< "succeeded after 12.3 s (exit code 0)"
};

/// A job as the dashboard shows it. Values that are unset, or not finite, are not shown.
struct DashboardJob {
  std::string id{};
  std::string name{};
  std::string user{};
  std::optional<JobEnd> end{};  ///< set if the job has ended; the job does not change afterwards
  std::optional<std::int64_t> epoch{};
  std::optional<std::int64_t> step{};
  std::optional<double> loss{};
  std::optional<double> accuracy{};  ///< in percent
  std::optional<double> samples_per_second{};
  std::optional<int> restarts{};
  std::string bottleneck{};                    ///< in words; empty if not known yet
  std::optional<int> slowest{};                ///< the instance that the other instances wait for
  std::vector<DashboardInstance> instances{};  ///< sorted by index
  std::vector<events::LogEntry> events{};      ///< the newest, oldest first
};

/// The source of the jobs that the dashboard shows.
///
/// The server calls `jobs()` from one thread at a time, never while it answers a browser. A request
/// of a browser never reaches the feed. If `jobs()` throws, the page shows the message and keeps
/// the previous jobs.
class JobFeed {
 public:
  virtual ~JobFeed() = default;

  /// The running jobs, and the jobs that have ended, as they are now.
  virtual std::vector<DashboardJob> jobs() = 0;
};

}  // namespace lockstep::monitor

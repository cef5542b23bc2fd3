#pragma once

#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/monitor/devices/job_sampler.h"
#include "lockstep/monitor/status/jobs_view.h"
#include "lockstep/monitor/web/job_feed.h"

namespace lockstep::monitor {

struct StatusFeedOptions {
  std::string job{};          ///< show only this job; empty: all jobs
  bool shows_others = false;  ///< also the jobs of other users whose pages can be read, as by root
};

/// The jobs of this machine, from the pages that their instances publish and from their event logs.
///
/// The feed keeps each log open. It can therefore read how a job ended after the launcher has
/// removed the folder of the job. Logs of other users are not read. The feed asks no sensor and no
/// driver, because a broken GPU may block both.
class StatusFeed final : public JobFeed {
 public:
  static constexpr std::size_t kMostEvents = 100;  ///< of each job

  explicit StatusFeed(topology::Environment environment, StatusFeedOptions options = {});

  std::vector<DashboardJob> jobs() override;

 private:
  struct Log {
    UniqueFd file{};
    std::vector<events::LogEntry> entries{};  ///< the newest
  };

  void read_log(const DashboardJob& job, const std::string& folder);

  JobSampler sampler_;
  StatusFeedOptions options_;
  JobsView view_;
  std::map<std::pair<std::string, std::string>, Log> logs_;  ///< by user and job
};

/// How a job ended, from the entries of its log.
JobEnd describe_end(std::span<const events::LogEntry> entries);

/// Writes the path of the job's event log into the job's folder if the log is elsewhere
/// (`--log-dir`). Throws `Io`.
void leave_path_of_events(const std::string& folder, const std::string& events_file);

}  // namespace lockstep::monitor

#pragma once

#include <map>
#include <string>

#include "lockstep/monitor/devices/job_sampler.h"
#include "lockstep/monitor/status/jobs_view.h"
#include "lockstep/monitor/web/job_feed.h"

namespace lockstep::monitor {

struct StatusFeedOptions {
  std::string job{};  ///< that one alone; empty: all
  /// Jobs of other users too, where their pages can be read, as by root.
  bool shows_others = false;
};

/// What the dashboard shows of the jobs of this machine: what their instances publish, and the logs
/// of their events.
///
/// Logs of other users' jobs are not shown. It looks at jobs alone, and is made in no time: no
/// sensor and no driver, which a sick GPU may keep, is asked.
class StatusFeed final : public JobFeed {
 public:
  explicit StatusFeed(topology::Environment environment, StatusFeedOptions options = {});

  std::string snapshot() override;
  std::string events(const std::string& job, int most) override;

 private:
  JobSampler sampler_;
  StatusFeedOptions options_;
  JobsView view_;
  std::map<std::string, std::string> folders_;  ///< of the jobs of the last snapshot
};

/// Tells who looks into a job's folder where its log of events is, if that is elsewhere
/// (`--log-dir`). Throws `Io`.
void leave_path_of_events(const std::string& folder, const std::string& events_file);

}  // namespace lockstep::monitor

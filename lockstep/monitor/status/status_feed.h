#pragma once

#include <map>
#include <string>

#include "lockstep/monitor/devices/host_sampler.h"
#include "lockstep/monitor/web/job_feed.h"

namespace lockstep::monitor {

/// What the dashboard shows of the jobs of this machine: what their instances publish, and the logs
/// of their events.
///
/// Jobs of others are shown where their pages can be read, but their logs are not.
class StatusFeed final : public JobFeed {
 public:
  /// `job`: that one alone; empty: all.
  explicit StatusFeed(topology::Environment environment, std::string job = {});

  std::string snapshot() override;
  std::string events(const std::string& job, int most) override;

 private:
  HostSampler sampler_;
  std::string job_;
  std::map<std::string, std::string> folders_;  ///< of the jobs of the last snapshot
};

/// Tells who looks into a job's folder where its log of events is, if that is elsewhere
/// (`--log-dir`). Throws `Io`.
void leave_path_of_events(const std::string& folder, const std::string& events_file);

}  // namespace lockstep::monitor

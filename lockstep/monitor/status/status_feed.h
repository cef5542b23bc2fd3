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

/// The file in a job's folder that names its log of events, where that is elsewhere (`--log-dir`).
inline constexpr const char* kEventsPathName = "events.path";

}  // namespace lockstep::monitor

#pragma once

#include <string>

#include "lockstep/monitor/devices/job_sampler.h"
#include "lockstep/monitor/status/recent_times.h"

namespace lockstep::monitor {

/// Makes of one snapshot after the other what the dashboard shows of the jobs in it, as `JobFeed`
/// describes it. It knows no clock but that of the snapshots.
///
/// Shares of time, the bottleneck and the slowest instance are of the last seconds, and of those at
/// work: instances that run, and of which something was heard within 10 s, or within three of their
/// steps where these take longer, while they train. A rate have those that train.
class JobsView {
 public:
  std::string to_json(const HostSnapshot& snapshot);

 private:
  RecentTimes recent_;
};

}  // namespace lockstep::monitor

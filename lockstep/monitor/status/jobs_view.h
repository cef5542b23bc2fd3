#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/monitor/devices/job_sampler.h"
#include "lockstep/monitor/status/recent_times.h"
#include "lockstep/monitor/web/job_feed.h"

namespace lockstep::monitor {

/// Computes from successive snapshots what the dashboard shows of each job. Reads no clock: all
/// times come from the snapshots.
///
/// Time shares, the bottleneck and the slowest instance cover the last seconds, and only instances
/// at work: running instances that have published something within 10 s, or within three of their
/// steps if steps take longer, while they train. Only training instances have a rate.
///
/// An instance whose page is gone stays in its job as "ended" until another process has its number,
/// or until the job has fewer instances. A job that is gone stays with all its instances after the
/// running jobs, with an empty `end`. At most `kMostEnded` jobs stay, the newest first.
class JobsView {
 public:
  static constexpr std::size_t kMostEnded = 16;

  std::vector<DashboardJob> update(const HostSnapshot& snapshot);

 private:
  DashboardJob shown_job(const WatchedJob& job, std::int64_t now_ns) const;

  RecentTimes recent_;
  std::vector<DashboardJob> jobs_;  ///< of the last update
};

}  // namespace lockstep::monitor

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "lockstep/monitor/web/curve_history.h"
#include "lockstep/monitor/web/job_feed.h"

namespace lockstep::monitor {

/// The text that the dashboard sends to its pages: the jobs of a feed and the curves of all looks
/// so far, as JSON. At most one thread at a time may call a member.
///
///     {"problem": "…", "jobs": [{
///       "id": "20261116-4711", "name": "train resnet20", "user": "ann", "state": "running",
///       "epoch": 2, "step": 120, "loss": 1.45, "accuracy": 48.4, "samples_per_second": 2031.5,
///       "restarts": 0, "bottleneck": "input-bound: …", "slowest": 3,
///       "hosts": [{"name": "a", "instances": [{
///         "index": 0, "pid": 4712, "alive": true, "phase": "training", "step": 120,
///         "samples_per_second": 1015.2, "memory_mib": 812, "cpu_percent": 99,
///         "time": {"data": 0.31, "compute": 0.55, "reduce": 0.09, "idle": 0.05},
///         "replicas": [{"index": 0, "stages": [{"index": 0, "device": "cpu 0"}]}]}]}],
///       "curves": {"step": [1, 2], "loss": [2.1, 1.9], "accuracy": […], "samples_per_second":
///       […]}, "share_curves": {"step": [1, 2], "instances": {"0": {"data": [31, 30], …}}},
///       "events": [{"event": "start", "instance": 0, …}]}]}
///
/// An ended job has the state "ended" and `"end": {"exit_code": 0, "text": "succeeded after 12
/// s"}`. Unknown values are missing, or null within curves. `problem` is present if the last look
/// failed; the jobs are then those of the look before. The text shows at most 64 jobs, share curves
/// of 64 instances of each job, and has at most `kMostBytes`.
class DashboardState {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{16} << 20;

  explicit DashboardState(JobFeed& feed);

  /// Asks the feed, and updates the text.
  void refresh();

  std::shared_ptr<const std::string> text() const noexcept { return text_; }
  /// Counts the changes of the text.
  std::uint64_t version() const noexcept { return version_; }

 private:
  static constexpr std::size_t kMostSharePoints = 100;  // fewer, because each has all instances

  using JobKey = std::pair<std::string, std::string>;  ///< user and job
  struct KnownJob {
    CurveHistory<CurvePoint> curve{};
    CurveHistory<SharePoint> shares{kMostSharePoints};
    std::string text{};
    bool has_ended = false;
  };

  std::string jobs_text();
  static std::string job_text(const DashboardJob& job, KnownJob& known);

  JobFeed& feed_;
  std::map<JobKey, KnownJob> known_;
  std::string last_jobs_;
  std::shared_ptr<const std::string> text_;
  std::uint64_t version_ = 0;
};

}  // namespace lockstep::monitor

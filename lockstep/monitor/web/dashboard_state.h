#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/monitor/web/job_feed.h"

namespace lockstep::monitor {

/// Rows of JSON for the steps of a job, from the first step to the last, in bounded memory. If the
/// memory is full, every second row is removed, and from then on only every second new row is kept.
class CurveHistory {
 public:
  explicit CurveHistory(std::size_t most_rows) : most_rows_(most_rows) {}

  /// Adds a row. Removes the rows of the same and of later steps first, as after a restart.
  void add(std::int64_t step, std::string row);

  /// All rows as a JSON array.
  std::string text() const;

 private:
  std::size_t most_rows_;
  std::vector<std::pair<std::int64_t, std::string>> rows_{};
  bool is_last_kept_ = true;  ///< the newest row is always shown; the next row may replace it
  std::uint64_t kept_every_ = 1;
  std::uint64_t added_ = 0;
};

/// The jobs of a feed as JSON, with the curves of all looks so far.
///
///     {"problem": null, "jobs": [{
///       "id": "20261116-4711", "name": "train resnet20", "user": "ann", "state": "running",
///       "epoch": 2, "step": 120, "loss": 1.45, "accuracy": 48.4, "samples_per_second": 2031.5,
///       "restarts": 0, "bottleneck": "input-bound: …", "slowest": 3,
///       "instances": [{
///         "host": "a", "index": 0, "alive": true, "phase": "training", "pid": 4712, "step": 120,
///         "samples_per_second": 1015.2, "memory_mib": 812, "cpu_percent": 99,
///         "time": {"data": 0.31, "compute": 0.55, "reduce": 0.09, "idle": 0.05},
///         "replicas": [{"index": 0, "stages": ["cpu 0"]}]}],
///       "events": [{"event": "start", "instance": 0, …}],
///       "curves": [[1, 2.1, 30.5, null], [2, 1.9, 41.2, 2031.5]],
///       "share_curves": [[1, {"0": [31, 55, 9, 5]}], [2, {"0": [30, 56, 9, 5]}]]}]}
///
/// A row of `curves` has the step, the loss, the accuracy and the samples per second. A row of
/// `share_curves` has the step and the time shares of the instances, in percent.
///
/// An ended job has the state "ended" and `"end": {"exit_code": 0, "text": "succeeded after 12
/// s"}`. Unknown values are missing, or null within curves. If the last look failed, `problem` is
/// its error, and the jobs are those of the look before. The text shows at most 64 jobs, share
/// curves of 64 instances of each job, and has at most `kMostBytes`.
class DashboardState {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{16} << 20;

  explicit DashboardState(JobFeed& feed) : feed_(feed) {}

  /// Asks the feed and returns the new text.
  std::string refresh();

 private:
  struct KnownJob {
    CurveHistory curve{400};
    CurveHistory shares{100};  ///< fewer, because each row has all instances
    std::string text{};
    bool has_ended = false;
  };

  std::string jobs_text();

  JobFeed& feed_;
  std::map<std::pair<std::string, std::string>, KnownJob> known_;  ///< by user and job
  std::string last_jobs_;
};

}  // namespace lockstep::monitor

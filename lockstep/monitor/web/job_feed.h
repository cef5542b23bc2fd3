#pragma once

#include <string>

namespace lockstep::monitor {

/// Where the dashboard gets what it shows. It can only ask: nothing that a browser sends reaches a
/// feed, but for the moment at which it is asked.
///
/// One thread calls it, that of the server, a few times a second, and answers no browser meanwhile:
/// a feed should take milliseconds. What it throws is shown as a problem, and the page keeps what
/// it had.
class JobFeed {
 public:
  virtual ~JobFeed() = default;

  /// The jobs as they are now, as JSON. All is optional but `jobs`, `id` and `index`; what a job
  /// does not have is not shown.
  ///
  ///     {"jobs": [{
  ///       "id": "20261116-4711", "name": "resnet20 on cifar10", "user": "ann", "state": "running",
  ///       "epoch": 2, "step": 120,
  ///       "loss": 1.45, "accuracy": 48.4, "samples_per_second": 2031.5, "restarts": 0,
  ///       "bottleneck": "input-bound: replicas waited 31 % of the time for data; try --num-workers
  ///       4", "slowest": 3, "hosts": [{"name": "a", "instances": [{
  ///         "index": 0, "pid": 4712, "alive": true, "phase": "training", "step": 120,
  ///         "samples_per_second": 1015.2, "memory_mib": 812, "cpu_percent": 99,
  ///         "time": {"data": 0.31, "compute": 0.55, "reduce": 0.09, "idle": 0.05},
  ///         "replicas": [{"index": 0, "stages": [{"index": 0, "device": "cpu 0-1"}]}]}]}]}]}
  ///
  /// `state` is "running" or "ended"; accuracy is in percent, shares of time are of 1 and of the
  /// last seconds. `slowest` is the instance that the others wait for.
  virtual std::string snapshot() = 0;

  /// The newest events of a job, oldest first, at most so many: a JSON list of what `events.jsonl`
  /// has lines of.
  virtual std::string events(const std::string& job, int most) = 0;
};

}  // namespace lockstep::monitor

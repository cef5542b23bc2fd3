#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace lockstep {

/// How long something took that was done many times, in seconds.
struct Latency {
  std::int64_t count = 0;
  double min = 0;
  double max = 0;
  double total = 0;

  double mean() const noexcept { return count == 0 ? 0 : total / static_cast<double>(count); }
  void add(double seconds) noexcept {
    min = count == 0 ? seconds : std::min(min, seconds);
    max = std::max(max, seconds);
    total += seconds;
    ++count;
  }
  void add(const Latency& other) noexcept {
    if (other.count == 0) return;
    min = count == 0 ? other.min : std::min(min, other.min);
    max = std::max(max, other.max);
    total += other.total;
    count += other.count;
  }
};

/// How long one stage took for its micro-batches, of all replicas of this instance.
struct StageCounters {
  Latency forward;
  Latency backward;
};

/// Where the time of this instance's optimizer steps went. Devices work side by side: what they did
/// counts as the mean over them, so that the phases together are the step.
struct PerfCounters {
  Latency data;     ///< waiting for batches
  Latency compute;  ///< forward and backward
  Latency reduce;   ///< writing gradients, combining them, updating weights
  Latency idle;     ///< waiting for other devices and instances
  Latency step;     ///< all of it
  std::vector<StageCounters> stages;
};

}  // namespace lockstep

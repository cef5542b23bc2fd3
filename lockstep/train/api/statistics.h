#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "lockstep/events/status_sink.h"

namespace lockstep {

/// Durations of an action that is repeated, in seconds.
struct Latency {
  std::int64_t count = 0;
  double min = 0;
  double max = 0;
  double total = 0;

  double mean() const noexcept { return count == 0 ? 0 : total / static_cast<double>(count); }
  void add(double seconds) noexcept { add(Latency{1, seconds, seconds, seconds}); }
  void add(const Latency& other) noexcept {
    if (other.count == 0) return;
    min = count == 0 ? other.min : std::min(min, other.min);
    max = std::max(max, other.max);
    total += other.total;
    count += other.count;
  }
};

/// Times of the micro-batches of one stage, for all replicas of this instance.
struct StageCounters {
  Latency forward;
  Latency backward;
};

/// Times of the phases of this instance's optimizer steps. Devices work in parallel: a phase is the
/// mean over the devices, so that the phases add up to the step.
struct PerfCounters {
  Latency data;     ///< waiting for batches
  Latency compute;  ///< forward and backward
  Latency reduce;   ///< writing gradients, combining them, updating weights
  Latency idle;     ///< waiting for other devices and instances
  Latency step;     ///< the whole step
  std::vector<StageCounters> stages;

  /// The total time of each phase.
  events::PhaseSeconds seconds() const noexcept {
    return {
        .data = data.total, .compute = compute.total, .reduce = reduce.total, .idle = idle.total};
  }
};

/// Bytes that all instances of this host use together for a training.
struct MemoryUse {
  std::int64_t weights = 0;    ///< with buffers
  std::int64_t optimizer = 0;  ///< optimizer state and the average of the weights
  std::int64_t shared = 0;     ///< all shared memory: two versions of both, and gradients
};

/// Approximate number of bytes that an instance needs on its GPU.
struct GpuMemory {
  std::int64_t state = 0;        ///< weights, optimizer state, and copies of both
  std::int64_t sums = 0;         ///< of gradients
  std::int64_t samples = 0;      ///< of two launches; and the dataset if it is stored there
  std::int64_t activations = 0;  ///< of one pass

  std::int64_t total() const noexcept { return state + sums + samples + activations; }
};

/// Cost of the checkpoints so far, on instance 0.
struct CheckpointCost {
  std::int64_t taken = 0;
  double blocked_seconds = 0;  ///< training waited for copies of its state
  double writer_seconds = 0;   ///< CPU time in the background
};

}  // namespace lockstep

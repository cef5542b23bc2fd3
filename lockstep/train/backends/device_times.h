#pragma once

#include <chrono>
#include <vector>

#include "lockstep/events/trace_events.h"
#include "lockstep/train/api/phase_times.h"

namespace lockstep::train {

/// What one device did in one step, in seconds.
struct DeviceTimes {
  double data = 0;  ///< waiting for batches
  double compute = 0;
  double reduce = 0;
  std::vector<StageCounters> stages{};
  events::SpanSink* spans = nullptr;  ///< is told what its thread does
};

/// Seconds since it was made, or last asked.
class Stopwatch {
 public:
  double lap() {
    const auto now = std::chrono::steady_clock::now();
    const std::chrono::duration<double> time = now - begin_;
    begin_ = now;
    return time.count();
  }

 private:
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace lockstep::train

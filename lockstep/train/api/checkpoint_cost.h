#pragma once

#include <cstdint>

namespace lockstep {

/// What checkpoints have cost so far, on instance 0.
struct CheckpointCost {
  std::int64_t taken = 0;
  double blocked_seconds = 0;  ///< that training waited for copies of its state
  double writer_seconds = 0;   ///< of a CPU, in the background
};

}  // namespace lockstep

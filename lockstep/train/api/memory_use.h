#pragma once

#include <cstdint>

namespace lockstep {

/// Bytes that a training takes on this host, however many instances it has there.
struct MemoryUse {
  std::int64_t weights = 0;    ///< with buffers
  std::int64_t optimizer = 0;  ///< what it keeps, with an average of weights
  std::int64_t shared = 0;     ///< all that is shared: both of those in two versions, and gradients
};

/// Bytes that an instance needs on its GPU, about.
struct GpuMemory {
  std::int64_t state = 0;        ///< weights, what the optimizer keeps, and copies of them
  std::int64_t sums = 0;         ///< of gradients, on their way to one
  std::int64_t samples = 0;      ///< of two launches; and the data set, where it is stored there
  std::int64_t activations = 0;  ///< of one pass

  std::int64_t total() const noexcept { return state + sums + samples + activations; }
};

}  // namespace lockstep

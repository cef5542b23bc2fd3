#pragma once

#include <cstdint>

namespace lockstep {

/// Bytes that a training takes on this host, however many instances it has there.
struct MemoryUse {
  std::int64_t weights = 0;    ///< with buffers
  std::int64_t optimizer = 0;  ///< what it keeps, with an average of weights
  std::int64_t shared = 0;     ///< all that is shared: both of those in two versions, and gradients
};

}  // namespace lockstep

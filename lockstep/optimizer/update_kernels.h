#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "lockstep/base/data_type.h"
#include "lockstep/base/export.h"
#include "lockstep/optimizer/optimizer.h"

namespace lockstep::optimizer {

// Loops over rows of numbers, for every vector unit (Highway). Each element gets the same
// instructions wherever it stands, and sums go in an order that the length alone decides; nothing
// is contracted.

/// Writes the next weights and state of a slice with a built-in optimizer. `gradient_scale`
/// (clipping) is multiplied with each gradient; `trust` is LAMB's ratio.
LOCKSTEP_PRIVATE_API void update(const Optimizer& optimizer, const Slice& slice,
                                 const UpdateFacts& facts, float gradient_scale, double trust);

/// Sums of squares of a slice's weights and of LAMB's direction for it.
struct TrustSums {
  double weights = 0;
  double direction = 0;
};
LOCKSTEP_PRIVATE_API TrustSums trust_sums(const Optimizer& optimizer, const Slice& slice,
                                          const UpdateFacts& facts, float gradient_scale);

/// next[i] = decay · average[i] + (1 - decay) · weights[i]
LOCKSTEP_PRIVATE_API void average(double decay, std::span<const float> average,
                                  std::span<const float> weights, std::span<float> next);

LOCKSTEP_PRIVATE_API double sum_of_squares(std::span<const float> values);
LOCKSTEP_PRIVATE_API std::int64_t count_not_finite(std::span<const float> values);

/// Rounds each value to F16 or BF16, and divides it by `scale`, a power of two; to F32: divides
/// only. `from` may be `to`.
LOCKSTEP_PRIVATE_API void round_leaf(DataType type, float scale, std::span<const float> from,
                                     std::span<float> to);

void scale(float factor, std::span<float> values);
LOCKSTEP_PRIVATE_API void divide(float divisor, std::span<float> values);

}  // namespace lockstep::optimizer

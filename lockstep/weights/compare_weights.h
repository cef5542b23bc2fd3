#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/weights/tensor_set.h"

namespace lockstep::weights {

/// How the elements of two tensors of one type and shape differ.
struct ElementDifferences {
  std::int64_t differing = 0;  ///< whose bytes are not the same
  std::int64_t total = 0;
  /// Where the two are furthest from each other, counting in row-major order; a NaN against a
  /// number is further than anything. For types that are no floats: where they differ first.
  std::int64_t index = 0;
  std::optional<std::pair<double, double>> values{};  ///< there, of floats
};

/// A name under which two sets do not hold the same.
struct TensorDifference {
  std::string name;
  const TensorView* a = nullptr;  ///< none where the set has no such name
  const TensorView* b = nullptr;
  std::optional<ElementDifferences> elements{};  ///< where type and shape are the same
};

struct SetComparison {
  std::int64_t tensors = 0;                   ///< names, each counted once
  std::vector<TensorDifference> differences;  ///< by ascending name
};

/// Compares two sets name by name and byte by byte. A tensor under several names counts once, where
/// both sets keep it so. Metadata is not compared. The result refers to both sets, which have to be
/// in order.
SetComparison compare_weights(const TensorSet& a, const TensorSet& b);

}  // namespace lockstep::weights

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/data/transform/pipeline.h"
#include "lockstep/data/transform/row_kernels.h"

namespace lockstep::gpu {

/// How levels of 8 bits become numbers: ((x / 255) - mean) / deviation for each channel.
struct LevelNumbers {
  static constexpr std::int64_t kRows = 4;

  std::int64_t channels = 0;
  data::kernels::Division division = data::kernels::Division::Divide;
  /// For all channels the mean, then the deviation, its reciprocal, and the level that an erased
  /// pixel has in an output of bytes.
  std::vector<float> values;
};

/// Without a normalization the mean is 0 and the deviation 1. Throws `Options` for one that is not
/// of this many channels.
LevelNumbers level_numbers(const std::optional<data::Normalize>& normalize, std::int64_t channels);

}  // namespace lockstep::gpu

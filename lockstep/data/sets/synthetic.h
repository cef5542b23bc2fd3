#pragma once

#include <cstdint>

#include "lockstep/base/export.h"
#include "lockstep/data/dataset.h"

namespace lockstep::data {

struct SyntheticOptions {
  std::int64_t size = 50'000;
  std::int64_t classes = 10;
  std::int64_t height = 32;
  std::int64_t width = 32;
  std::int64_t channels = 3;
  std::uint64_t seed = 0;
  Split split = Split::Train;
};

/// Pictures that are made up, for a machine without data: "image" u8 and "label" i64.
///
/// Each class has a smooth pattern of its own; a sample is its class's pattern, shifted and dimmed
/// at random, with noise. So there is something to learn: a small network separates ten classes
/// within an epoch. Train and test samples differ, the patterns do not. A sample is a function of
/// (seed, split, index), the same in every process; nothing is stored.
///
/// Errors: `Options` for sizes that cannot be meant.
LOCKSTEP_API DatasetPtr synthetic(const SyntheticOptions& options);

}  // namespace lockstep::data

#pragma once

#include <cstdint>

#include "lockstep/gpu/layers/batch_norm.h"

namespace lockstep::gpu {

/// The quotient of two positive numbers, rounded up.
constexpr std::int64_t divide_up(std::int64_t number, std::int64_t by) {
  return (number + by - 1) / by;
}

/// How rows and channels of each group are dealt out to blocks of threads.
///
/// A block has a slice of the channels, `lanes` packets wide, in one part of the rows. Its threads
/// stand side by side over the slice, row below row, and step down through the part. Blocks of one
/// slice follow each other, then slices, then groups.
struct Deal {
  std::int64_t rows = 0;  ///< of a group
  std::int64_t channels = 0;
  int packets = 0;  ///< of a row
  int lanes_log2 = 0;
  int slices = 0;
  int parts = 0;
  int part_rows = 0;  ///< the last parts may have fewer, or none
};

/// `packet_channels` divides the channels of the shape.
Deal deal_out(const NormShape& shape, int packet_channels, int lanes, int parts);

/// Of a launch. Errors: `Options` where they are more than CUDA counts.
unsigned blocks_of(const NormShape& shape, const Deal& deal);

}  // namespace lockstep::gpu

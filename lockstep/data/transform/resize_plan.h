#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/base/export.h"

namespace lockstep::data {

// How one dimension of a picture is resized: bilinear as Pillow does it, that is with a triangle
// filter that widens with the scale when a picture shrinks, in integer steps: weights of 22 bits,
// sums rounded to 8 bits after each dimension. Results have the bits of Pillow's.
//
// The kernels multiply pairs of 16-bit numbers, so a weight w is held as w / 256 and w % 256. Where
// all weights of a resize have fewer bits (doubling a picture takes quarters), the sums are the
// same with less work.

/// Which resize, and which part of its result is needed.
struct ResizeKey {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t first = 0;  ///< of the entries of the result that are needed
  std::int64_t count = 0;
  std::int64_t channels = 1;  ///< 1 for the vertical direction
  bool operator==(const ResizeKey&) const = default;
};

/// The entries that make up one entry of the result: `count` from `first` on, weights that sum to
/// about 2^22.
struct Taps {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::size_t weights = 0;  ///< where they begin in `FilterTaps::weights`
};

struct FilterTaps {
  std::vector<Taps> taps;
  std::vector<std::int32_t> weights;
  std::vector<double> shares;  ///< only while a filter is computed
};

/// Pillow's arithmetic in double precision, step by step, so that each weight is the same.
LOCKSTEP_PRIVATE_API void compute_taps(const ResizeKey& key, FilterTaps& result);

/// How many upper bits of its 22 are enough for every weight of a resize.
enum class WeightBits : std::uint8_t { Upper8, Upper14, All22 };

/// Two 16-bit factors for two neighbours in a vector.
struct WeightPair {
  std::int16_t first = 0;
  std::int16_t second = 0;
};

/// The vertical direction: each row of the result is a sum over pairs of rows.
struct ColumnPlan {
  struct RowPair {
    std::int64_t first = 0;
    std::int64_t second = 0;  ///< rows, counted from `first_row`
    WeightPair high;
    WeightPair low;
  };

  ResizeKey key;
  std::int64_t first_row = 0;  ///< the rows of the source that are needed
  std::int64_t row_count = 0;
  WeightBits bits = WeightBits::All22;
  std::vector<RowPair> pairs;
  std::vector<std::uint32_t> ends;  ///< for each row of the result, the end of its pairs
};

/// The horizontal direction, as a program for vectors of four blocks of 16 bytes. A block makes
/// four bytes of the result, one in each 32-bit lane; a step loads 16 bytes of the row for each
/// block, picks two of them for each lane and adds their products with two weights.
///
/// The four lanes of a block are four bytes of the result that follow each other, whatever the
/// number of channels; with 3 channels and far-apart taps the fourth lane is left unused, so that
/// a block is a pixel and a load serves all lanes.
struct RowPlan {
  static constexpr std::int64_t kBlocks = 4;
  static constexpr std::int64_t kLoad = 16;

  struct Step {
    std::array<std::uint8_t, kBlocks * kLoad> picks;  ///< 0x80 picks a zero
    std::array<WeightPair, kBlocks * 4> high;
    std::array<WeightPair, kBlocks * 4> low;
    std::array<std::int32_t, kBlocks> offsets;  ///< of the loads, in bytes of the row
  };

  ResizeKey key;
  WeightBits bits = WeightBits::All22;
  std::int64_t lanes_used = 4;  ///< of each block
  std::vector<Step> steps;
  std::vector<std::uint32_t> ends;  ///< for each group of four blocks, the end of its steps

  /// Bytes of a row that the kernel reads: shorter rows must be copied to memory of this size.
  std::int64_t bytes_read() const noexcept;
  /// Bytes that the kernel writes for a row, at least those of the result.
  std::int64_t bytes_written() const noexcept;
};

/// Make a plan in the memory of another. Where memory does not suffice, its key is no key's.
void plan_columns(const ResizeKey& key, FilterTaps& memory, ColumnPlan& plan);
void plan_rows(const ResizeKey& key, FilterTaps& memory, RowPlan& plan);

}  // namespace lockstep::data

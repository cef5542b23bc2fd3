#pragma once

#include <cstdint>

#include "lockstep/gpu/pictures/host_device.h"
#include "lockstep/gpu/pictures/level_math.h"
#include "lockstep/gpu/pictures/picture_pass.h"

// Where the levels of a picture come from: which pixels a number sums, seen through windows.
namespace lockstep::gpu {

/// 22 bits of a weight are fraction; sums begin with a half.
inline constexpr int kWeightFraction = 22;
inline constexpr std::int32_t kWeightHalf = 1 << (kWeightFraction - 1);

struct RowRange {
  std::int32_t first = 0;
  std::int32_t count = 0;
};

/// One band of one picture.
struct PassWork {
  const PassShape& shape;
  const PicturePass& pass;
  const std::int32_t* tables;
  const std::uint8_t* source;
  std::uint8_t* wide;
  RowRange band;  ///< rows of the output
  RowRange rows;  ///< of the window `before` that are widened for them
};

LOCKSTEP_HOST_DEVICE bool is_within(std::int32_t at, std::int32_t count) {
  return static_cast<std::uint32_t>(at) < static_cast<std::uint32_t>(count);
}

LOCKSTEP_HOST_DEVICE std::int32_t lesser(std::int32_t a, std::int32_t b) {
  return a < b ? a : b;
}

LOCKSTEP_HOST_DEVICE RowRange band_of(const PassShape& shape, std::int32_t number) {
  const auto first = number * shape.band_rows;
  return {first, lesser(shape.band_rows, shape.height - first)};
}

/// The entry of a table for one row or column of its result: the first that it sums, then weights.
LOCKSTEP_HOST_DEVICE const std::int32_t* entry_of(const std::int32_t* tables, TablePlace table,
                                                  std::int32_t number) {
  return tables + table.at + number * (table.taps + 1);
}

/// The rows that the vertical direction needs for a band. They ascend with the rows of the result.
LOCKSTEP_HOST_DEVICE RowRange rows_for(const PicturePass& pass, const std::int32_t* tables,
                                       RowRange band) {
  const auto& after = pass.after;
  const auto first = band.first > after.top ? band.first : after.top;
  const auto end = lesser(band.first + band.count, after.top + after.shown_height);
  if (first >= end) return {};
  const auto shift = after.from_top - after.top;
  const auto first_row = *entry_of(tables, pass.columns, first + shift);
  const auto last_row = *entry_of(tables, pass.columns, end - 1 + shift) + pass.columns.taps;
  return {first_row, last_row - first_row};
}

/// Where a number of a widened row comes from: `count` bytes of the source's row, `step` apart, and
/// as many weights among the tables.
struct ColumnSum {
  std::int32_t weights = 0;
  std::int32_t count = 0;
  std::int32_t offset = 0;
  std::int32_t step = 0;
};

/// Taps that fall into a window's black parts are left out.
LOCKSTEP_HOST_DEVICE ColumnSum column_sum(const PassWork& work, std::int32_t x, std::int32_t c) {
  const auto& after = work.pass.after;
  const auto& before = work.pass.before;
  const auto taps = work.pass.rows.taps;
  const auto at = (after.flipped != 0 ? after.width - 1 - x : x) - after.left;
  if (!is_within(at, after.shown_width)) return {};
  const auto* const entry = entry_of(work.tables, work.pass.rows, after.from_left + at);
  const auto direction = before.flipped != 0 ? -1 : 1;
  // Tap k is the pixel start + k * direction of what is shown.
  const auto start = (before.flipped != 0 ? before.width - 1 - entry[0] : entry[0]) - before.left;
  auto first = before.flipped != 0 ? start - before.shown_width + 1 : -start;
  auto end = before.flipped != 0 ? start + 1 : before.shown_width - start;
  if (first < 0) first = 0;
  if (end > taps) end = taps;
  if (first >= end) return {};
  const auto channels = work.shape.channels;
  return {static_cast<std::int32_t>(entry - work.tables) + 1 + first, end - first,
          (before.from_left + start + first * direction) * channels + c, direction * channels};
}

/// A row of the window `before`: where it begins in the source, and whether it is shown or black.
struct SourceRow {
  std::int32_t offset;
  bool is_shown;
};

LOCKSTEP_HOST_DEVICE SourceRow source_row(const PassWork& work, std::int32_t row) {
  const auto& before = work.pass.before;
  const auto at = row - before.top;
  const bool is_shown = is_within(at, before.shown_height);
  return {(before.from_top + (is_shown ? at : 0)) * work.shape.source_row_bytes, is_shown};
}

/// One number in each of some rows, which share what is looked up.
template <int kRows>
LOCKSTEP_HOST_DEVICE void sum_column(const PassWork& work, const ColumnSum& column,
                                     const SourceRow (&rows)[kRows],
                                     std::int32_t (&levels)[kRows]) {
  LOCKSTEP_UNROLL
  for (int i = 0; i < kRows; ++i) levels[i] = kWeightHalf;
  // With all the rows there is enough to do at once.
  LOCKSTEP_NO_UNROLL
  for (std::int32_t k = 0; k < column.count; ++k) {
    const auto weight = work.tables[column.weights + k];
    const auto at = column.offset + k * column.step;
    LOCKSTEP_UNROLL
    for (int i = 0; i < kRows; ++i) levels[i] += weight * work.source[rows[i].offset + at];
  }
  LOCKSTEP_UNROLL
  for (int i = 0; i < kRows; ++i) {
    levels[i] = rows[i].is_shown ? levels[i] >> kWeightFraction : 0;
  }
}

template <int V>
LOCKSTEP_HOST_DEVICE void make_black(std::int32_t (&levels)[V]) {
  LOCKSTEP_UNROLL
  for (int i = 0; i < V; ++i) levels[i] = 0;
}

/// V levels of row y beginning with the j-th, copied from the source. C is 0 for any channels.
template <int C, int V>
LOCKSTEP_HOST_DEVICE void copy_levels(const PassWork& work, std::int32_t y, std::int32_t j,
                                      std::int32_t (&levels)[V]) {
  const auto& window = work.pass.after;
  const auto channels = C > 0 ? C : work.shape.channels;
  const auto row = y - window.top;
  if (!is_within(row, window.shown_height)) return make_black(levels);
  const auto* const bytes =
      work.source + static_cast<std::int64_t>(window.from_top + row) * work.shape.source_row_bytes;
  auto x = j / channels;
  auto c = j - x * channels;
  LOCKSTEP_UNROLL
  for (int i = 0; i < V; ++i) {
    const auto at = (window.flipped != 0 ? window.width - 1 - x : x) - window.left;
    levels[i] =
        is_within(at, window.shown_width) ? bytes[(window.from_left + at) * channels + c] : 0;
    if (++c == channels) {
      c = 0;
      ++x;
    }
  }
}

/// The same from widened rows, which are as wide as the output and flipped as it is.
template <int V>
LOCKSTEP_HOST_DEVICE void sum_wide(const PassWork& work, std::int32_t y, std::int32_t j,
                                   std::int32_t (&levels)[V]) {
  const auto& window = work.pass.after;
  const auto row = y - window.top;
  if (!is_within(row, window.shown_height)) return make_black(levels);
  const auto* const entry = entry_of(work.tables, work.pass.columns, window.from_top + row);
  const auto* bytes = work.wide + (entry[0] - work.rows.first) * work.shape.wide_stride + j;
  LOCKSTEP_UNROLL
  for (int i = 0; i < V; ++i) levels[i] = kWeightHalf;
  for (std::int32_t k = 0; k < work.pass.columns.taps; ++k) {
    const auto weight = entry[1 + k];
    if constexpr (V == 1) {
      levels[0] += weight * bytes[0];
    } else {
      const auto words = load_words<V / 4>(bytes);
      LOCKSTEP_UNROLL
      for (int i = 0; i < V; ++i) {
        levels[i] += weight * static_cast<std::int32_t>((words.word[i / 4] >> (i % 4 * 8)) & 0xffU);
      }
    }
    bytes += work.shape.wide_stride;
  }
  LOCKSTEP_UNROLL
  for (int i = 0; i < V; ++i) levels[i] >>= kWeightFraction;
}

/// The same without memory: rows are widened as they are summed.
LOCKSTEP_HOST_DEVICE void sum_directly(const PassWork& work, std::int32_t y, std::int32_t j,
                                       std::int32_t (&levels)[1]) {
  const auto& window = work.pass.after;
  const auto row = y - window.top;
  if (!is_within(row, window.shown_height)) return make_black(levels);
  const auto x = j / work.shape.channels;
  const auto column = column_sum(work, x, j - x * work.shape.channels);
  const auto* const entry = entry_of(work.tables, work.pass.columns, window.from_top + row);
  auto sum = kWeightHalf;
  for (std::int32_t k = 0; k < work.pass.columns.taps; ++k) {
    const SourceRow rows[1] = {source_row(work, entry[0] + k)};
    std::int32_t level[1];
    sum_column(work, column, rows, level);
    sum += entry[1 + k] * level[0];
  }
  levels[0] = sum >> kWeightFraction;
}

template <Resizing resizing, int C, int V>
LOCKSTEP_HOST_DEVICE void make_levels(const PassWork& work, std::int32_t y, std::int32_t j,
                                      std::int32_t (&levels)[V]) {
  if constexpr (resizing == Resizing::None) copy_levels<C>(work, y, j, levels);
  if constexpr (resizing == Resizing::Wide) sum_wide(work, y, j, levels);
  if constexpr (resizing == Resizing::Direct) sum_directly(work, y, j, levels);
}

}  // namespace lockstep::gpu

#pragma once

#include <cstdint>

#include "lockstep/gpu/pictures/host_device.h"
#include "lockstep/gpu/pictures/level_math.h"
#include "lockstep/gpu/pictures/picture_levels.h"
#include "lockstep/gpu/pictures/picture_pass.h"

// How a block of threads makes a band of rows of one picture, as functions of the thread: first
// `widen_rows`, where the pass has widened rows, then `finish_rows`, each by all threads before the
// next begins.
namespace lockstep::gpu {

/// A multiple of the channels that kernels know, so that a thread always meets the same ones.
inline constexpr std::int32_t kPassThreads = 192;

/// What all launches of a pass, and all blocks of a launch, are told.
struct PassCall {
  PassShape shape{};
  const PicturePass* passes = nullptr;  ///< of each picture
  const std::int32_t* tables = nullptr;
  const float* numbers = nullptr;  ///< `LevelNumbers::values`
  Division division = Division::Divide;
  const std::uint8_t* sources = nullptr;
  void* out = nullptr;
  std::int64_t out_stride = 0;  ///< numbers from one picture of the output to the next
};

/// A thread's part of the horizontal direction: a column of some rows at a time.
LOCKSTEP_HOST_DEVICE void widen_rows(const PassWork& work, std::int32_t thread,
                                     std::int32_t threads) {
  constexpr int kRows = 8;
  const auto length = work.shape.width * work.shape.channels;
  const auto tasks = length * ((work.rows.count + kRows - 1) / kRows);
  for (auto task = thread; task < tasks; task += threads) {
    const auto group = task / length;
    const auto at = task - group * length;
    const auto x = at / work.shape.channels;
    const auto column = column_sum(work, x, at - x * work.shape.channels);
    // The last row is made again where there are no more, which costs less than a branch.
    const auto last = work.rows.count - 1;
    SourceRow rows[kRows];
    LOCKSTEP_UNROLL
    for (int i = 0; i < kRows; ++i) {
      rows[i] = source_row(work, work.rows.first + lesser(group * kRows + i, last));
    }
    std::int32_t levels[kRows];
    sum_column(work, column, rows, levels);
    LOCKSTEP_UNROLL
    for (int i = 0; i < kRows; ++i) {
      const auto row = lesser(group * kRows + i, last);
      work.wide[row * work.shape.wide_stride + at] = static_cast<std::uint8_t>(levels[i]);
    }
  }
}

/// Which of V numbers are erased, as bits.
template <int C, int V>
LOCKSTEP_HOST_DEVICE std::uint32_t erased_of(const PassWork& work, std::int32_t y, std::int32_t j) {
  const auto& pass = work.pass;
  if (!is_within(y - pass.erased_top, pass.erased_height)) return 0;
  const auto channels = C > 0 ? C : work.shape.channels;
  std::uint32_t erased = 0;
  LOCKSTEP_UNROLL
  for (int i = 0; i < V; ++i) {
    const bool is_erased = is_within((j + i) / channels - pass.erased_left, pass.erased_width);
    erased |= (is_erased ? 1U : 0U) << i;
  }
  return erased;
}

/// V numbers of the output.
template <int C, int V>
LOCKSTEP_HOST_DEVICE void write_run(Division, const std::int32_t (&levels)[V],
                                    const ChannelNumbers<C>& numbers, std::uint32_t erased,
                                    std::uint8_t* out) {
  std::int32_t written[V];
  LOCKSTEP_UNROLL
  for (int i = 0; i < V; ++i) {
    const bool is_erased = ((erased >> i) & 1U) != 0;
    written[i] = is_erased ? static_cast<std::int32_t>(numbers.erased_level(i)) : levels[i];
  }
  store_levels(written, out);
}

template <typename T, int C, int V>
LOCKSTEP_HOST_DEVICE void write_run(Division division, const std::int32_t (&levels)[V],
                                    const ChannelNumbers<C>& numbers, std::uint32_t erased,
                                    T* out) {
  float values[V];
  LOCKSTEP_UNROLL
  for (int i = 0; i < V; ++i) values[i] = float_of(levels[i]);
  if (division == Division::Correct) {
    convert_run<Division::Correct>(values, numbers, erased, out);
  } else {
    convert_run<Division::Divide>(values, numbers, erased, out);
  }
}

/// A thread's part of the vertical direction, and of the conversion. V divides the length of a row,
/// and `threads` times V is a multiple of C.
template <typename T, Resizing resizing, int C, int V>
LOCKSTEP_HOST_DEVICE void finish_rows(const PassWork& work, const PassCall& call,
                                      std::int64_t picture, std::int32_t thread,
                                      std::int32_t threads) {
  const auto channels = C > 0 ? C : work.shape.channels;
  const auto length = work.shape.width * channels;
  const auto runs_of_row = length / V;
  auto* const out = static_cast<T*>(call.out) + picture * call.out_stride;
  ChannelNumbers<C> numbers(call.numbers, channels, thread * V % channels);
  // Runs that are `threads` apart, without a division for each.
  const auto rows_of_step = threads / runs_of_row;
  const auto runs_of_step = threads % runs_of_row;
  auto row = thread / runs_of_row;
  auto run = thread % runs_of_row;
  while (row < work.band.count) {
    const auto y = work.band.first + row;
    const auto j = run * V;
    if constexpr (C == 0) numbers.first = j % channels;
    std::int32_t levels[V];
    make_levels<resizing, C>(work, y, j, levels);
    write_run(call.division, levels, numbers, erased_of<C, V>(work, y, j),
              out + static_cast<std::int64_t>(y) * length + j);
    row += rows_of_step;
    run += runs_of_step;
    if (run >= runs_of_row) {
      run -= runs_of_row;
      ++row;
    }
  }
}

}  // namespace lockstep::gpu

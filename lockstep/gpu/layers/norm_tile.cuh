#pragma once

#include <cstdint>

#include "lockstep/gpu/layers/norm_deal.h"

namespace lockstep::gpu {

/// Channels of a slice, at most.
inline constexpr int kMaxWidth = 128;

__device__ inline int rows_of_part(const Deal& deal, int part) {
  const auto left = deal.rows - static_cast<std::int64_t>(part) * deal.part_rows;
  return static_cast<int>(max(std::int64_t{0}, min(std::int64_t{deal.part_rows}, left)));
}

constexpr int log2_of(int number) {
  return number == 1 ? 0 : 1 + log2_of(number / 2);
}

/// What the calling thread has of its block's part: `kPackets` packets at a time, a chunk, one
/// below the other in steps.
template <int kCount, int kThreads, int kPackets>
class Tile {
 public:
  __device__ explicit Tile(const Deal& deal) {
    const int block = static_cast<int>(blockIdx.x);
    const int thread = static_cast<int>(threadIdx.x);
    const int tile = block / deal.parts;
    lanes_ = 1 << deal.lanes_log2;
    step_log2_ = kThreadsLog2 - deal.lanes_log2;
    part_ = block % deal.parts;
    group_ = tile / deal.slices;
    const int slice = tile % deal.slices;
    const int row = thread >> deal.lanes_log2;
    const int packet = slice * lanes_ + (thread & (lanes_ - 1));
    const int rows = rows_of_part(deal, part_);
    chunks_ = max(1, (((rows + step() - 1) >> step_log2_) + kPackets - 1) / kPackets);
    rows_left_ = packet < deal.packets ? rows - row : 0;
    first_channel_ = static_cast<std::int64_t>(slice) * width();
    channel_ = static_cast<std::int64_t>(packet) * kCount;
    const auto first_row =
        group_ * deal.rows + static_cast<std::int64_t>(part_) * deal.part_rows + row;
    origin_ = first_row * deal.channels + channel_;
    stride_ = static_cast<int>(step() * deal.channels);
    owns_channel_ = thread < width() && first_channel_ + thread < deal.channels;
  }

  __device__ int part() const { return part_; }
  __device__ std::int64_t group() const { return group_; }
  __device__ int lanes() const { return lanes_; }
  __device__ int width() const { return lanes_ * kCount; }
  __device__ int chunks() const { return chunks_; }

  /// Of the calling thread's packets; beyond the last where it has none.
  __device__ std::int64_t channel() const { return channel_; }
  __device__ bool has_packets() const { return rows_left_ > 0; }
  /// Packets of the calling thread in a chunk.
  __device__ int count(int chunk) const {
    const int steps = (rows_left_ + step() - 1) >> step_log2_;
    return max(0, min(kPackets, steps - chunk * kPackets));
  }
  /// Numbers from one packet to the next of the same thread.
  __device__ int stride() const { return stride_; }
  /// Of a packet, in numbers.
  __device__ std::int64_t offset(int chunk, int packet) const {
    const auto first = origin_ + std::int64_t{chunk * kPackets} * stride_;
    return first + std::int64_t{packet} * stride_;
  }

  /// The first `width()` threads take one channel each of the slice, for what is done once per
  /// channel. Beyond the last channel of the batch there is nothing to read or write.
  __device__ bool is_within_slice() const { return static_cast<int>(threadIdx.x) < width(); }
  __device__ bool owns_channel() const { return owns_channel_; }
  __device__ std::int64_t owned_channel() const { return first_channel_ + threadIdx.x; }

 private:
  static constexpr int kThreadsLog2 = log2_of(kThreads);
  __device__ int step() const { return 1 << step_log2_; }

  int lanes_;
  int step_log2_;
  int part_;
  int chunks_;
  int rows_left_;  ///< from the thread's first one
  int stride_;     ///< numbers from packet to packet
  bool owns_channel_;
  std::int64_t group_;
  std::int64_t first_channel_;
  std::int64_t channel_;
  std::int64_t origin_;
};

template <int kCount>
__device__ void write_numbers(const float (&numbers)[kCount], float* to) {
  if constexpr (kCount % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      *reinterpret_cast<float4*>(to + i) =
          make_float4(numbers[i], numbers[i + 1], numbers[i + 2], numbers[i + 3]);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) to[i] = numbers[i];
  }
}

template <int kCount>
__device__ void read_numbers(const float* from, float (&numbers)[kCount]) {
  if constexpr (kCount % 4 == 0) {
#pragma unroll
    for (int i = 0; i < kCount; i += 4) {
      const auto four = *reinterpret_cast<const float4*>(from + i);
      numbers[i] = four.x;
      numbers[i + 1] = four.y;
      numbers[i + 2] = four.z;
      numbers[i + 3] = four.w;
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) numbers[i] = from[i];
  }
}

}  // namespace lockstep::gpu

#pragma once

#include "lockstep/gpu/layers/norm_tile.cuh"
#include "lockstep/gpu/layers/packets.cuh"
#include "lockstep/gpu/layers/reciprocal.cuh"

namespace lockstep::gpu {

// Sums over rows: of a thread's packets, then of the threads of a warp, of the warps of a block and
// of the parts of a group, each time in a fixed order. What is summed for a variance are moments,
// the mean of some rows and the squares of their distances to it: unlike sums of squares, they lose
// nothing where the mean is large and the variance small (Chan, Golub and LeVeque, 1983).

template <int kCount>
struct Moments {
  float count = 0;
  float mean[kCount] = {};
  float squares[kCount] = {};
};

template <int kCount>
__device__ void merge(const Moments<kCount>& more, Moments<kCount>& moments) {
  const float count = moments.count + more.count;
  const float share = count > 0 ? more.count * reciprocal(count) : 0.0F;
  const float weight = moments.count * share;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float distance = more.mean[i] - moments.mean[i];
    moments.mean[i] += distance * share;
    moments.squares[i] += more.squares[i] + distance * (distance * weight);
  }
  moments.count = count;
}

/// Of the first `count` packets, in one loop: a second one would keep all numbers unpacked beside
/// the packets. Distances are to the first packet. As that is one of those that count, squares of
/// them are at most so many times larger than those to the mean as there are packets: no more than
/// that many last bits are lost.
template <typename T, int kCount, int kPackets>
__device__ Moments<kCount> moments_of(const Packet<T, kCount> (&x)[kPackets], int count) {
  float first[kCount];
  float sum[kCount] = {};
  Moments<kCount> moments;
  unpack(x[0], first);
#pragma unroll
  for (int i = 1; i < kPackets; ++i) {
    if (i >= count) continue;
    float numbers[kCount];
    unpack(x[i], numbers);
#pragma unroll
    for (int c = 0; c < kCount; ++c) {
      const float distance = numbers[c] - first[c];
      sum[c] += distance;
      moments.squares[c] = fmaf(distance, distance, moments.squares[c]);
    }
  }
  moments.count = static_cast<float>(count);
  const float share = count > 0 ? reciprocal(moments.count) : 0.0F;
#pragma unroll
  for (int c = 0; c < kCount; ++c) {
    const float off = sum[c] * share;
    moments.mean[c] = first[c] + off;
    moments.squares[c] = fmaxf(0.0F, fmaf(-sum[c], off, moments.squares[c]));
  }
  return moments;
}

struct ChannelMoments {
  float count;
  float mean;
  float squares;
};

/// All parts together; each is asked for more than once. Means are added as distances to the first
/// one: sums of the means themselves would lose their last bits.
template <typename Part>
__device__ ChannelMoments combine(int parts, const Part& part) {
  const float first = part(0).mean;
  ChannelMoments all{};
  float sum = 0;
  for (int i = 0; i < parts; ++i) {
    const ChannelMoments one = part(i);
    all.count += one.count;
    sum += one.count * (one.mean - first);
  }
  all.mean = all.count > 0 ? first + sum * reciprocal(all.count) : 0.0F;
  for (int i = 0; i < parts; ++i) {
    const ChannelMoments one = part(i);
    const float distance = one.mean - all.mean;
    all.squares += one.squares + one.count * distance * distance;
  }
  return all;
}

/// Two sums per channel: of gradients, and of gradients times the distance of x to its mean.
template <int kCount>
struct Sums {
  float first[kCount] = {};
  float second[kCount] = {};
};

struct ChannelSums {
  float first;
  float second;
};

template <typename Part>
__device__ ChannelSums add_up(int parts, const Part& part) {
  ChannelSums all{};
  for (int i = 0; i < parts; ++i) {
    const ChannelSums one = part(i);
    all.first += one.first;
    all.second += one.second;
  }
  return all;
}

/// What the warps of a block found, for those who put it together. Aligned for packets of numbers.
template <int kThreads>
struct alignas(16) WarpResults {
  static constexpr int kWarps = kThreads / 32;
  float first[kWarps][kMaxWidth];
  float second[kWarps][kMaxWidth];
  float count[kWarps];
};

inline constexpr unsigned kWholeWarp = 0xffffffffU;

/// The first thread of each lane gets what all threads of the warp in that lane have.
template <int kCount>
__device__ void merge_warp(int lanes, Moments<kCount>& moments) {
  for (int distance = 16; distance >= lanes; distance /= 2) {
    Moments<kCount> more;
    more.count = __shfl_down_sync(kWholeWarp, moments.count, distance);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      more.mean[i] = __shfl_down_sync(kWholeWarp, moments.mean[i], distance);
      more.squares[i] = __shfl_down_sync(kWholeWarp, moments.squares[i], distance);
    }
    merge(more, moments);
  }
}

template <int kCount>
__device__ void merge_warp(int lanes, Sums<kCount>& sums) {
  for (int distance = 16; distance >= lanes; distance /= 2) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      sums.first[i] += __shfl_down_sync(kWholeWarp, sums.first[i], distance);
      sums.second[i] += __shfl_down_sync(kWholeWarp, sums.second[i], distance);
    }
  }
}

/// The block's moments of the channel that the calling thread has within the slice, if it has one.
/// Lanes beyond the last channel bring zeros, and the count is that of the first lane, which is
/// never beyond.
template <int kCount, int kThreads>
__device__ ChannelMoments merge_block(int lanes, Moments<kCount>& moments,
                                      WarpResults<kThreads>& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  merge_warp(lanes, moments);
  if (lane < lanes) {
    write_numbers(moments.mean, &shared.first[warp][lane * kCount]);
    write_numbers(moments.squares, &shared.second[warp][lane * kCount]);
  }
  if (lane == 0) shared.count[warp] = moments.count;
  __syncthreads();
  const int channel = static_cast<int>(threadIdx.x);
  if (channel >= lanes * kCount) return {};
  return combine(WarpResults<kThreads>::kWarps, [&](int i) {
    return ChannelMoments{shared.count[i], shared.first[i][channel], shared.second[i][channel]};
  });
}

template <int kCount, int kThreads>
__device__ ChannelSums merge_block(int lanes, Sums<kCount>& sums, WarpResults<kThreads>& shared) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  merge_warp(lanes, sums);
  if (lane < lanes) {
    write_numbers(sums.first, &shared.first[warp][lane * kCount]);
    write_numbers(sums.second, &shared.second[warp][lane * kCount]);
  }
  __syncthreads();
  const int channel = static_cast<int>(threadIdx.x);
  if (channel >= lanes * kCount) return {};
  return add_up(WarpResults<kThreads>::kWarps, [&](int i) {
    return ChannelSums{shared.first[i][channel], shared.second[i][channel]};
  });
}

}  // namespace lockstep::gpu

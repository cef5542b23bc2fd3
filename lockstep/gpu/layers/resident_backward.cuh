#pragma once

#include "lockstep/gpu/layers/batch_norm_resident.h"
#include "lockstep/gpu/layers/norm_math.cuh"
#include "lockstep/gpu/layers/norm_sums.cuh"
#include "lockstep/gpu/layers/resident_blocks.cuh"

namespace lockstep::gpu {

template <int kThreads>
struct alignas(16) BackwardShared {
  WarpResults<kThreads> warps;
  ClusterResults cluster;
  float mean[kMaxWidth];
  float scale[kMaxWidth];
  float bias[kMaxWidth];
  float inverse_deviation[kMaxWidth];
  float slope[kMaxWidth];
  float constant[kMaxWidth];
};

template <typename T, typename Tile, int kThreads>
__device__ void publish_normalization(const BackwardWork<T>& work, const Tile& tile,
                                      BackwardShared<kThreads>& shared) {
  if (!tile.is_within_slice()) return;
  float mean = 0, inverse = 0, weight = 0, bias = 0;
  if (tile.owns_channel()) {
    const auto channel = tile.owned_channel();
    mean = work.mean[tile.group() * work.deal.channels + channel];
    inverse = work.inverse_deviation[tile.group() * work.deal.channels + channel];
    weight = work.weight[channel];
    bias = work.bias[channel];
  }
  shared.mean[threadIdx.x] = mean;
  shared.scale[threadIdx.x] = weight * inverse;
  shared.bias[threadIdx.x] = bias;
  shared.inverse_deviation[threadIdx.x] = inverse;
}

/// Adds the second gradient, and lets pass what the ReLU did. Reads some packets at a time:
/// registers hold x already.
template <NormGate gate, typename T, typename Tile, int kThreads, int kPackets>
__device__ void join_chunk(const BackwardWork<T>& work, const Tile& tile, int chunk,
                           Slots<T, kThreads, kPackets>& gradient) {
  constexpr int kCount = kWide<T>;
  constexpr int kSome = 2;
  const int count = tile.count(chunk);
  const bool has_second = work.second_dy != nullptr;
#pragma unroll
  for (int first = 0; first < kPackets; first += kSome) {
    unsigned marks[kSome] = {};
    Packet<T, kCount> second[kSome];
#pragma unroll
    for (int i = 0; i < kSome; ++i) {
      const bool is_there = first + i < count;
      const auto at = tile.offset(chunk, first + i);
      second[i] = zeros<T, kCount>();
      if constexpr (reads_marks(gate)) {
        if (is_there) marks[i] = load_marks<gate, kCount>(work, at);
      }
      if (has_second && is_there) {
        second[i] = load_packet<kCount, Reading::Again>(work.second_dy + at);
      }
    }
    gradient.wait();
#pragma unroll
    for (int i = 0; i < kSome; ++i) {
      auto passed = gradient.read(first + i);
      if (has_second) passed = join(passed, second[i]);
      if (reads_marks(gate)) pass_marks(marks[i], passed);
      gradient.write(first + i, passed);
    }
  }
}

template <int half, int kCount>
__device__ void add_half(const Sums<kCount / 2>& from, Sums<kCount>& sums) {
#pragma unroll
  for (int i = 0; i < kCount / 2; ++i) {
    sums.first[half * kCount / 2 + i] += from.first[i];
    sums.second[half * kCount / 2 + i] += from.second[i];
  }
}

/// Adds half of each packet to the sums; where the gate is the input, lets pass first what x did.
template <NormGate gate, int half, typename T, int kCount, int kThreads, int kPackets>
__device__ void add_half_chunk(const BackwardShared<kThreads>& shared, int lane,
                               const Packet<T, kCount> (&x)[kPackets],
                               Slots<T, kThreads, kPackets>& gradient, Sums<kCount>& sums) {
  constexpr int kHalf = kCount / 2;
  const int first = lane + half * kHalf;
  Normalization<kHalf> normalization;
  Sums<kHalf> added;
  read_numbers(&shared.mean[first], normalization.mean);
  if constexpr (gate == NormGate::Input) {
    read_numbers(&shared.scale[first], normalization.scale);
    read_numbers(&shared.bias[first], normalization.bias);
  }
#pragma unroll
  for (int i = 0; i < kPackets; ++i) {
    if (i % 4 == 0) hold_reads();
    const auto half_x = half_of<half>(x[i]);
    auto passed = gradient.template read_half<half>(i);
    if constexpr (gate == NormGate::Input) {
      pass_input_gate(normalization, half_x, passed);
      gradient.template write_half<half>(i, passed);
    }
    add_gradient(normalization.mean, half_x, passed, added);
  }
  add_half<half>(added, sums);
}

template <NormGate gate, typename T, int kCount, int kThreads, int kPackets>
__device__ void add_chunk(const BackwardShared<kThreads>& shared, int lane,
                          const Packet<T, kCount> (&x)[kPackets],
                          Slots<T, kThreads, kPackets>& gradient, Sums<kCount>& sums) {
  add_half_chunk<gate, 0>(shared, lane, x, gradient, sums);
  hold_reads();
  add_half_chunk<gate, 1>(shared, lane, x, gradient, sums);
}

/// Finds the sums of the whole group and what they make of dx.
template <typename T, typename Tile, int kThreads>
__device__ void publish_sums(const BackwardWork<T>& work, const Tile& tile,
                             const ChannelSums& block, BackwardShared<kThreads>& shared) {
  ChannelSums sums = block;
  if (work.deal.parts > 1) {
    share_results(work.deal, tile.part(), tile.is_within_slice(), block.first, block.second,
                  shared.cluster);
  }
  if (!tile.is_within_slice()) return;
  if (work.deal.parts > 1) {
    sums = add_up(work.deal.parts, [&](int part) {
      return ChannelSums{shared.cluster[0][part][threadIdx.x],
                         shared.cluster[1][part][threadIdx.x]};
    });
  }
  const float inverse = shared.inverse_deviation[threadIdx.x];
  const float weight_sum = sums.second * inverse;
  const auto part_of_dx = input_gradient_of(weight_sum, sums.first, shared.scale[threadIdx.x],
                                            inverse, static_cast<float>(work.deal.rows));
  shared.slope[threadIdx.x] = part_of_dx.slope;
  shared.constant[threadIdx.x] = part_of_dx.constant;
  if (!tile.owns_channel() || tile.part() != 0) return;
  const auto at = tile.group() * work.deal.channels + tile.owned_channel();
  work.weight_sums[at] = weight_sum;
  work.bias_sums[at] = sums.first;
}

/// Makes half of each packet of x that of dx.
template <int half, typename T, int kCount, int kThreads, int kPackets>
__device__ void make_half_gradients(const BackwardShared<kThreads>& shared, int lane,
                                    const Slots<T, kThreads, kPackets>& gradient,
                                    Packet<T, kCount> (&x)[kPackets]) {
  constexpr int kHalf = kCount / 2;
  const int first = lane + half * kHalf;
  InputGradient<kHalf> constants;
  read_numbers(&shared.mean[first], constants.mean);
  read_numbers(&shared.scale[first], constants.scale);
  read_numbers(&shared.slope[first], constants.slope);
  read_numbers(&shared.constant[first], constants.constant);
#pragma unroll
  for (int i = 0; i < kPackets; ++i) {
    if (i % 4 == 0) hold_reads();
    const auto passed = gradient.template read_half<half>(i);
    set_half<half>(input_gradient(constants, half_of<half>(x[i]), passed), x[i]);
  }
}

/// Of the chunk that is in x and the slots; x is dx then.
template <typename T, typename Tile, int kCount, int kThreads, int kPackets>
__device__ void write_gradients(const BackwardWork<T>& work, const Tile& tile, int chunk,
                                const BackwardShared<kThreads>& shared, int lane,
                                const Slots<T, kThreads, kPackets>& gradient,
                                Packet<T, kCount> (&x)[kPackets]) {
  make_half_gradients<0>(shared, lane, gradient, x);
  hold_reads();
  make_half_gradients<1>(shared, lane, gradient, x);
  hold_reads();
  const int count = tile.count(chunk);
  T* dx = work.dx + tile.offset(chunk, 0);
#pragma unroll
  for (int i = 0; i < kPackets; ++i, dx += tile.stride()) {
    if (i < count) store_packet(x[i], dx);
  }
  if (work.residual_gradient == nullptr) return;
  T* residual_gradient = work.residual_gradient + tile.offset(chunk, 0);
#pragma unroll
  for (int i = 0; i < kPackets; ++i, residual_gradient += tile.stride()) {
    if (i < count) store_packet(gradient.read(i), residual_gradient);
  }
}

template <typename T, int kThreads, int kPackets, NormGate gate>
__global__ void __launch_bounds__(kThreads, blocks_at_once(kThreads, kPackets))
    resident_backward_kernel(const __grid_constant__ BackwardWork<T> work) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  constexpr int kCount = kWide<T>;
  extern __shared__ uint4 slot_memory[];
  __shared__ BackwardShared<kThreads> shared;
  const Tile<kCount, kThreads, kPackets> tile(work.deal);
  Slots<T, kThreads, kPackets> gradient(slot_memory);
  const int lane = (static_cast<int>(threadIdx.x) & (tile.lanes() - 1)) * kCount;
  const bool joins = reads_marks(gate) || work.second_dy != nullptr;
  if (work.deal.parts > 1) arrive_at_cluster();

  Packet<T, kCount> x[kPackets];
  gradient.fetch(work.dy, tile, 0);
  load_chunk(work.x, tile, 0, x);
  publish_normalization(work, tile, shared);
  __syncthreads();
  Sums<kCount> sums;
  int chunk = 0;
  while (true) {
    if (joins) join_chunk<gate>(work, tile, chunk, gradient);
    gradient.wait();
    add_chunk<gate>(shared, lane, x, gradient, sums);
    if (chunk + 1 == tile.chunks()) break;
    ++chunk;
    gradient.fetch(work.dy, tile, chunk);
    load_chunk(work.x, tile, chunk, x);
  }
  publish_sums(work, tile, merge_block(tile.lanes(), sums, shared.warps), shared);
  __syncthreads();

  while (true) {
    write_gradients(work, tile, chunk, shared, lane, gradient, x);
    if (--chunk < 0) break;
    gradient.fetch(work.dy, tile, chunk);
    load_chunk(work.x, tile, chunk, x);
    if (joins) join_chunk<gate>(work, tile, chunk, gradient);
    gradient.wait();
    if constexpr (gate == NormGate::Input) {
      Sums<kCount> known;  // only the gate is wanted
      add_chunk<gate>(shared, lane, x, gradient, known);
    }
  }
#endif
}

template <typename T, int kThreads, int kPackets>
auto backward_kernel(NormGate gate) -> void (*)(BackwardWork<T>) {
  switch (gate) {
    case NormGate::Open:
      return resident_backward_kernel<T, kThreads, kPackets, NormGate::Open>;
    case NormGate::Input:
      return resident_backward_kernel<T, kThreads, kPackets, NormGate::Input>;
    case NormGate::Output:
      return resident_backward_kernel<T, kThreads, kPackets, NormGate::Output>;
    case NormGate::Marks:
      break;
  }
  return resident_backward_kernel<T, kThreads, kPackets, NormGate::Marks>;
}

template <typename T>
void resident_backward(const NormBackward& call, const NormPath& path, float* weight_sums,
                       float* bias_sums, Stream stream) {
  const auto deal = deal_out(call.shape, kWide<T>, path.lanes, path.cluster);
  const BackwardWork<T> work(call, deal, weight_sums, bias_sums);
  with_block_of(
      path,
      [&]<int kThreads, int kPackets>() {
        const ResidentLaunch<BackwardWork<T>> what{
            .kernel = backward_kernel<T, kThreads, kPackets>(gate_of(call)),
            .threads = kThreads,
            .cluster = path.cluster,
            .slot_bytes = sizeof(uint4) * kThreads * kPackets};
        launch(what, blocks_of(call.shape, deal), work, stream);
      },
      kEachResidentBlock);
}

}  // namespace lockstep::gpu

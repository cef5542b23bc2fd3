#pragma once

#include "lockstep/gpu/layers/batch_norm_resident.h"
#include "lockstep/gpu/layers/norm_math.cuh"
#include "lockstep/gpu/layers/norm_sums.cuh"
#include "lockstep/gpu/layers/resident_blocks.cuh"

namespace lockstep::gpu {

template <int kThreads>
struct alignas(16) ForwardShared {
  WarpResults<kThreads> warps;
  ClusterResults cluster;
  float mean[kMaxWidth];
  float scale[kMaxWidth];
  float bias[kMaxWidth];
};

/// The moments of the whole group, for the thread that has the channel.
template <typename Tile, int kThreads>
__device__ ChannelMoments merge_cluster(const Deal& deal, const Tile& tile,
                                        const ChannelMoments& block,
                                        ForwardShared<kThreads>& shared) {
  if (deal.parts == 1) return block;
  share_results(deal, tile.part(), tile.is_within_slice(), block.mean, block.squares,
                shared.cluster);
  if (!tile.is_within_slice()) return block;
  return combine(deal.parts, [&](int part) {
    return ChannelMoments{static_cast<float>(rows_of_part(deal, part)),
                          shared.cluster[0][part][threadIdx.x],
                          shared.cluster[1][part][threadIdx.x]};
  });
}

template <typename T, typename Tile, int kThreads>
__device__ void publish_moments(const ForwardWork<T>& work, const Tile& tile,
                                const ChannelMoments& moments, float weight, float bias,
                                ForwardShared<kThreads>& shared) {
  if (!tile.is_within_slice()) return;
  const float variance = moments.squares * reciprocal(moments.count);
  const float inverse = inverse_deviation_of(variance, work.epsilon);
  shared.mean[threadIdx.x] = moments.mean;
  shared.scale[threadIdx.x] = weight * inverse;
  shared.bias[threadIdx.x] = bias;
  if (!tile.owns_channel() || tile.part() != 0) return;
  const auto at = tile.group() * work.deal.channels + tile.owned_channel();
  work.mean[at] = moments.mean;
  work.inverse_deviation[at] = inverse;
  work.variance[at] = variance;
}

template <typename T, int kThreads, int kPackets, bool kHasResidual>
__global__ void __launch_bounds__(kThreads, blocks_at_once(kThreads, kPackets))
    resident_forward_kernel(const __grid_constant__ ForwardWork<T> work) {
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
  constexpr int kCount = kWide<T>;
  extern __shared__ uint4 slot_memory[];
  __shared__ ForwardShared<kThreads> shared;
  const Tile<kCount, kThreads, kPackets> tile(work.deal);
  Slots<T, kThreads, kPackets> residual(slot_memory);
  if (work.deal.parts > 1) arrive_at_cluster();

  const float weight = tile.owns_channel() ? work.weight[tile.owned_channel()] : 0.0F;
  const float bias = tile.owns_channel() ? work.bias[tile.owned_channel()] : 0.0F;
  Packet<T, kCount> x[kPackets];
  Moments<kCount> moments;
  for (int chunk = 0; chunk < tile.chunks(); ++chunk) {
    load_chunk(work.x, tile, chunk, x);
    if (kHasResidual && chunk + 1 == tile.chunks()) residual.fetch(work.residual, tile, chunk);
    merge(moments_of(x, tile.count(chunk)), moments);
  }
  const auto block = merge_block(tile.lanes(), moments, shared.warps);
  publish_moments(work, tile, merge_cluster(work.deal, tile, block, shared), weight, bias, shared);
  __syncthreads();

  Normalization<kCount> normalization;
  const int lane = (static_cast<int>(threadIdx.x) & (tile.lanes() - 1)) * kCount;
  read_numbers(&shared.mean[lane], normalization.mean);
  read_numbers(&shared.scale[lane], normalization.scale);
  read_numbers(&shared.bias[lane], normalization.bias);
  for (int chunk = tile.chunks() - 1;;) {
    const int count = tile.count(chunk);
    if (kHasResidual) residual.wait();
#pragma unroll
    for (int i = 0; i < kPackets; ++i) {
      if (i >= count) continue;
      const auto added = kHasResidual ? residual.read(i) : x[i];
      store_output<kHasResidual>(work,
                                 normalize<kHasResidual>(normalization, work.is_relu, x[i], added),
                                 tile.offset(chunk, i));
    }
    if (--chunk < 0) break;
    load_chunk(work.x, tile, chunk, x);
    if (kHasResidual) residual.fetch(work.residual, tile, chunk);
  }
#endif
}

template <typename T>
void resident_forward(const NormForward& call, const NormPath& path, float* variance,
                      Stream stream) {
  const auto deal = deal_out(call.shape, kWide<T>, path.lanes, path.cluster);
  const ForwardWork<T> work(call, deal, variance);
  with_block_of(
      path,
      [&]<int kThreads, int kPackets>() {
        const bool adds = call.residual != nullptr;
        const ResidentLaunch<ForwardWork<T>> what{
            .kernel = adds ? resident_forward_kernel<T, kThreads, kPackets, true>
                           : resident_forward_kernel<T, kThreads, kPackets, false>,
            .threads = kThreads,
            .cluster = path.cluster,
            .slot_bytes = adds ? sizeof(uint4) * kThreads * kPackets : 0};
        launch(what, blocks_of(call.shape, deal), work, stream);
      },
      kEachResidentBlock);
}

}  // namespace lockstep::gpu

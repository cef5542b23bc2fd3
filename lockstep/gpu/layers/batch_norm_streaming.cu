#include <cuda_runtime.h>

#include <algorithm>

#include "lockstep/gpu/check.h"
#include "lockstep/gpu/layers/batch_norm_streaming.h"
#include "lockstep/gpu/layers/norm_math.cuh"
#include "lockstep/gpu/layers/norm_sums.cuh"

// Three kernels per pass: sums of parts of a group's rows, the parts put together, and a second
// pass over memory that makes the results. There, a thread writes only where it has read itself.

namespace lockstep::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kPackets = 4;
/// As many as leave most multiprocessors something to do, and the sum over parts short.
constexpr std::int64_t kBlocksWanted = 2048;
constexpr int kMaxParts = 256;

template <int kCount>
using StreamTile = Tile<kCount, kThreads, kPackets>;

/// The first of a part's two numbers of a channel; the second stands `channels` numbers later.
__device__ std::int64_t partial_at(const Deal& deal, std::int64_t group, int part,
                                   std::int64_t channel) {
  return (group * deal.parts + part) * 2 * deal.channels + channel;
}

/// Of the channel that the calling thread has, if it has one.
template <int kCount>
__device__ void write_partial(const Deal& deal, const StreamTile<kCount>& tile, float first,
                              float second, float* partials) {
  if (!tile.owns_channel()) return;
  const auto at = partial_at(deal, tile.group(), tile.part(), tile.owned_channel());
  partials[at] = first;
  partials[at + deal.channels] = second;
}

template <int kCount, typename T>
__device__ void load_packets(const T* from, const StreamTile<kCount>& tile, int chunk,
                             Packet<T, kCount> (&packets)[kPackets]) {
  const int count = tile.count(chunk);
#pragma unroll
  for (int i = 0; i < kPackets; ++i) {
    packets[i] = i < count ? load_packet<kCount, Reading::Again>(from + tile.offset(chunk, i))
                           : zeros<T, kCount>();
  }
}

template <typename T, int kCount>
__global__ void __launch_bounds__(kThreads)
    moments_kernel(const __grid_constant__ ForwardWork<T> work, float* partials) {
  __shared__ WarpResults<kThreads> shared;
  const StreamTile<kCount> tile(work.deal);
  Moments<kCount> moments;
  for (int chunk = 0; chunk < tile.chunks(); ++chunk) {
    Packet<T, kCount> x[kPackets];
    load_packets(work.x, tile, chunk, x);
    merge(moments_of(x, tile.count(chunk)), moments);
  }
  const auto block = merge_block(tile.lanes(), moments, shared);
  write_partial(work.deal, tile, block.mean, block.squares, partials);
}

/// One thread per group and channel.
template <typename T>
__global__ void combine_moments_kernel(const __grid_constant__ ForwardWork<T> work,
                                       const float* partials, std::int64_t count) {
  const auto at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= count) return;
  const auto& deal = work.deal;
  const auto all = combine(deal.parts, [&](int part) {
    const auto from = partial_at(deal, at / deal.channels, part, at % deal.channels);
    return ChannelMoments{static_cast<float>(rows_of_part(deal, part)), partials[from],
                          partials[from + deal.channels]};
  });
  const float variance = all.squares * reciprocal(all.count);
  work.mean[at] = all.mean;
  work.inverse_deviation[at] = inverse_deviation_of(variance, work.epsilon);
  work.variance[at] = variance;
}

/// What a tensor is normalized with: a group's own statistics, or running ones for all.
struct Applied {
  const float* mean;
  const float* inverse_deviation;  ///< or none
  const float* variance;           ///< where the former is none
  std::int64_t group_stride;
};

template <typename T, int kCount>
__device__ Normalization<kCount> normalization_of(const ForwardWork<T>& work,
                                                  const Applied& applied, std::int64_t group,
                                                  std::int64_t channel) {
  Normalization<kCount> normalization;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const auto at = group * applied.group_stride + channel + i;
    const float inverse = applied.inverse_deviation != nullptr
                              ? applied.inverse_deviation[at]
                              : inverse_deviation_of(applied.variance[at], work.epsilon);
    normalization.mean[i] = applied.mean[at];
    normalization.scale[i] = work.weight[channel + i] * inverse;
    normalization.bias[i] = work.bias[channel + i];
  }
  return normalization;
}

template <typename T, int kCount, bool kHasResidual>
__global__ void __launch_bounds__(kThreads)
    normalize_kernel(const __grid_constant__ ForwardWork<T> work, const Applied applied) {
  const StreamTile<kCount> tile(work.deal);
  if (!tile.has_packets()) return;
  const auto normalization =
      normalization_of<T, kCount>(work, applied, tile.group(), tile.channel());
  for (int chunk = 0; chunk < tile.chunks(); ++chunk) {
    Packet<T, kCount> x[kPackets];
    Packet<T, kCount> residual[kPackets];
    load_packets(work.x, tile, chunk, x);
    if constexpr (kHasResidual) load_packets(work.residual, tile, chunk, residual);
    const int count = tile.count(chunk);
#pragma unroll
    for (int i = 0; i < kPackets; ++i) {
      if (i >= count) continue;
      const auto added = kHasResidual ? residual[i] : x[i];
      store_output<kHasResidual>(work,
                                 normalize<kHasResidual>(normalization, work.is_relu, x[i], added),
                                 tile.offset(chunk, i));
    }
  }
}

/// x, and the gradients that pass the gate.
template <NormGate gate, typename T, int kCount>
__device__ void load_gradients(const BackwardWork<T>& work, const StreamTile<kCount>& tile,
                               int chunk, const Normalization<kCount>& normalization,
                               Packet<T, kCount> (&x)[kPackets],
                               Packet<T, kCount> (&gradient)[kPackets]) {
  Packet<T, kCount> second[kPackets];
  unsigned marks[kPackets];
  load_packets(work.x, tile, chunk, x);
  load_packets(work.dy, tile, chunk, gradient);
  if constexpr (reads_marks(gate)) {
    const int count = tile.count(chunk);
#pragma unroll
    for (int i = 0; i < kPackets; ++i) {
      marks[i] = i < count ? load_marks<gate, kCount>(work, tile.offset(chunk, i)) : 0;
    }
  }
  if (work.second_dy != nullptr) {
    load_packets(work.second_dy, tile, chunk, second);
#pragma unroll
    for (int i = 0; i < kPackets; ++i) gradient[i] = join(gradient[i], second[i]);
  }
#pragma unroll
  for (int i = 0; i < kPackets; ++i) {
    if (gate == NormGate::Input) pass_input_gate(normalization, x[i], gradient[i]);
    if (reads_marks(gate)) pass_marks(marks[i], gradient[i]);
  }
}

/// Zeros for a thread without packets.
template <typename T, int kCount>
__device__ Normalization<kCount> normalization_of(const BackwardWork<T>& work,
                                                  const StreamTile<kCount>& tile) {
  Normalization<kCount> normalization{};
  if (!tile.has_packets()) return normalization;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const auto channel = tile.channel() + i;
    const auto at = tile.group() * work.deal.channels + channel;
    normalization.mean[i] = work.mean[at];
    normalization.scale[i] = work.weight[channel] * work.inverse_deviation[at];
    normalization.bias[i] = work.bias[channel];
  }
  return normalization;
}

/// Writes the gradient of the residual where one is wanted: the next kernel reads it in place of
/// what it was made of.
template <typename T, int kCount, NormGate gate>
__global__ void __launch_bounds__(kThreads)
    gradient_sums_kernel(const __grid_constant__ BackwardWork<T> work, float* partials) {
  __shared__ WarpResults<kThreads> shared;
  const StreamTile<kCount> tile(work.deal);
  const auto normalization = normalization_of(work, tile);
  Sums<kCount> sums;
  for (int chunk = 0; chunk < tile.chunks(); ++chunk) {
    Packet<T, kCount> x[kPackets];
    Packet<T, kCount> gradient[kPackets];
    load_gradients<gate>(work, tile, chunk, normalization, x, gradient);
    const int count = tile.count(chunk);
#pragma unroll
    for (int i = 0; i < kPackets; ++i) {
      add_gradient(normalization.mean, x[i], gradient[i], sums);
      if (work.residual_gradient == nullptr || i >= count) continue;
      store_packet(gradient[i], work.residual_gradient + tile.offset(chunk, i));
    }
  }
  const auto block = merge_block(tile.lanes(), sums, shared);
  write_partial(work.deal, tile, block.first, block.second, partials);
}

/// One thread per group and channel.
template <typename T>
__global__ void combine_sums_kernel(const __grid_constant__ BackwardWork<T> work,
                                    const float* partials, std::int64_t count) {
  const auto at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= count) return;
  const auto& deal = work.deal;
  const auto all = add_up(deal.parts, [&](int part) {
    const auto from = partial_at(deal, at / deal.channels, part, at % deal.channels);
    return ChannelSums{partials[from], partials[from + deal.channels]};
  });
  work.weight_sums[at] = all.second * work.inverse_deviation[at];
  work.bias_sums[at] = all.first;
}

template <typename T, int kCount>
__device__ InputGradient<kCount> input_gradient_at(const BackwardWork<T>& work,
                                                   const StreamTile<kCount>& tile) {
  InputGradient<kCount> constants;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const auto channel = tile.channel() + i;
    const auto at = tile.group() * work.deal.channels + channel;
    const float inverse = work.inverse_deviation[at];
    const float scale = work.weight[channel] * inverse;
    const auto part_of_dx = input_gradient_of(work.weight_sums[at], work.bias_sums[at], scale,
                                              inverse, static_cast<float>(work.deal.rows));
    constants.mean[i] = work.mean[at];
    constants.scale[i] = scale;
    constants.slope[i] = part_of_dx.slope;
    constants.constant[i] = part_of_dx.constant;
  }
  return constants;
}

template <typename T, int kCount, NormGate gate>
__global__ void __launch_bounds__(kThreads)
    input_gradient_kernel(const __grid_constant__ BackwardWork<T> work) {
  const StreamTile<kCount> tile(work.deal);
  if (!tile.has_packets()) return;
  const auto constants = input_gradient_at(work, tile);
  const auto normalization = normalization_of(work, tile);
  for (int chunk = 0; chunk < tile.chunks(); ++chunk) {
    Packet<T, kCount> x[kPackets];
    Packet<T, kCount> gradient[kPackets];
    load_gradients<gate>(work, tile, chunk, normalization, x, gradient);
    const int count = tile.count(chunk);
#pragma unroll
    for (int i = 0; i < kPackets; ++i) {
      if (i >= count) continue;
      store_packet(input_gradient(constants, x[i], gradient[i]), work.dx + tile.offset(chunk, i));
    }
  }
}

/// Of the rows of a group. By the shape alone, so that a workspace has room for every alignment.
int parts_of(const NormShape& shape) {
  constexpr std::int64_t kSliceChannels = 64;
  constexpr std::int64_t kFewRows = 64;
  const auto blocks = shape.groups * divide_up(shape.channels, kSliceChannels);
  const auto most = std::min<std::int64_t>(kMaxParts, divide_up(shape.rows, kFewRows));
  return static_cast<int>(std::clamp<std::int64_t>(divide_up(kBlocksWanted, blocks), 1, most));
}

Deal deal_streaming(const NormShape& shape, int packet_channels) {
  const auto packets = shape.channels / packet_channels;
  int lanes = 1;
  while (lanes < packets && lanes < (packet_channels == 1 ? 32 : 8)) lanes *= 2;
  return deal_out(shape, packet_channels, lanes, parts_of(shape));
}

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>(divide_up(count, kThreads));
}

template <typename T, int kCount>
void normalize_all(const NormShape& shape, const ForwardWork<T>& work, const Applied& applied,
                   Stream stream) {
  const auto kernel = work.residual != nullptr ? normalize_kernel<T, kCount, true>
                                               : normalize_kernel<T, kCount, false>;
  kernel<<<blocks_of(shape, work.deal), kThreads, 0, stream>>>(work, applied);
  check_launch("batch norm: normalize");
}

template <typename T, int kCount>
void forward_as(const NormForward& call, float* variance, float* partials, Stream stream) {
  const ForwardWork<T> work(call, deal_streaming(call.shape, kCount), variance);
  const auto count = call.shape.groups * call.shape.channels;
  moments_kernel<T, kCount>
      <<<blocks_of(call.shape, work.deal), kThreads, 0, stream>>>(work, partials);
  check_launch("batch norm: moments");
  combine_moments_kernel<T><<<blocks_for(count), kThreads, 0, stream>>>(work, partials, count);
  check_launch("batch norm: combine moments");
  const Applied applied{work.mean, work.inverse_deviation, nullptr, call.shape.channels};
  normalize_all<T, kCount>(call.shape, work, applied, stream);
}

template <typename T, int kCount, NormGate gate>
void sum_gradients(const NormShape& shape, const BackwardWork<T>& work, float* partials,
                   Stream stream) {
  gradient_sums_kernel<T, kCount, gate>
      <<<blocks_of(shape, work.deal), kThreads, 0, stream>>>(work, partials);
  check_launch("batch norm: gradient sums");
}

template <typename T, int kCount, NormGate gate>
void make_input_gradient(const NormShape& shape, const BackwardWork<T>& work, Stream stream) {
  input_gradient_kernel<T, kCount, gate>
      <<<blocks_of(shape, work.deal), kThreads, 0, stream>>>(work);
  check_launch("batch norm: input gradient");
}

/// What the second pass reads: the gradient of the residual, if the first one has written it.
template <typename T>
BackwardWork<T> second_pass_of(const BackwardWork<T>& work) {
  auto second = work;
  if (work.residual_gradient == nullptr) return second;
  second.dy = work.residual_gradient;
  second.second_dy = nullptr;
  second.y = nullptr;
  second.marks = nullptr;
  return second;
}

template <typename T, int kCount, NormGate gate>
void backward_through(const NormBackward& call, const BackwardWork<T>& work, float* partials,
                      Stream stream) {
  const auto count = call.shape.groups * call.shape.channels;
  sum_gradients<T, kCount, gate>(call.shape, work, partials, stream);
  combine_sums_kernel<T><<<blocks_for(count), kThreads, 0, stream>>>(work, partials, count);
  check_launch("batch norm: combine sums");
  if (work.residual_gradient != nullptr) {
    make_input_gradient<T, kCount, NormGate::Open>(call.shape, second_pass_of(work), stream);
  } else {
    make_input_gradient<T, kCount, gate>(call.shape, work, stream);
  }
}

template <typename T, int kCount>
void backward_as(const NormBackward& call, float* weight_sums, float* bias_sums, float* partials,
                 Stream stream) {
  const BackwardWork<T> work(call, deal_streaming(call.shape, kCount), weight_sums, bias_sums);
  switch (gate_of(call)) {
    case NormGate::Open:
      return backward_through<T, kCount, NormGate::Open>(call, work, partials, stream);
    case NormGate::Input:
      return backward_through<T, kCount, NormGate::Input>(call, work, partials, stream);
    case NormGate::Output:
      return backward_through<T, kCount, NormGate::Output>(call, work, partials, stream);
    case NormGate::Marks:
      return backward_through<T, kCount, NormGate::Marks>(call, work, partials, stream);
  }
}

template <typename T, int kCount>
void evaluate_as(const NormEvaluation& call, Stream stream) {
  const NormForward forward{.shape = call.shape,
                            .parameters = call.parameters,
                            .activation = call.activation,
                            .x = call.x,
                            .residual = call.residual,
                            .y = call.y};
  const ForwardWork<T> work(forward, deal_streaming(call.shape, kCount), nullptr);
  const Applied applied{call.running_mean, nullptr, call.running_variance, 0};
  normalize_all<T, kCount>(call.shape, work, applied, stream);
}

}  // namespace

std::int64_t streaming_partials(const NormShape& shape) {
  return 2 * parts_of(shape) * shape.groups * shape.channels;
}

template <typename T>
void streaming_forward(const NormForward& call, Packets packets, float* variance, float* partials,
                       Stream stream) {
  if (packets == Packets::Wide) return forward_as<T, kWide<T>>(call, variance, partials, stream);
  forward_as<T, 1>(call, variance, partials, stream);
}

template <typename T>
void streaming_backward(const NormBackward& call, Packets packets, float* weight_sums,
                        float* bias_sums, float* partials, Stream stream) {
  if (packets == Packets::Wide) {
    return backward_as<T, kWide<T>>(call, weight_sums, bias_sums, partials, stream);
  }
  backward_as<T, 1>(call, weight_sums, bias_sums, partials, stream);
}

template <typename T>
void streaming_evaluate(const NormEvaluation& call, Packets packets, Stream stream) {
  if (packets == Packets::Wide) return evaluate_as<T, kWide<T>>(call, stream);
  evaluate_as<T, 1>(call, stream);
}

template void streaming_forward<float>(const NormForward&, Packets, float*, float*, Stream);
template void streaming_forward<Float16>(const NormForward&, Packets, float*, float*, Stream);
template void streaming_forward<BFloat16>(const NormForward&, Packets, float*, float*, Stream);
template void streaming_backward<float>(const NormBackward&, Packets, float*, float*, float*,
                                        Stream);
template void streaming_backward<Float16>(const NormBackward&, Packets, float*, float*, float*,
                                          Stream);
template void streaming_backward<BFloat16>(const NormBackward&, Packets, float*, float*, float*,
                                           Stream);
template void streaming_evaluate<float>(const NormEvaluation&, Packets, Stream);
template void streaming_evaluate<Float16>(const NormEvaluation&, Packets, Stream);
template void streaming_evaluate<BFloat16>(const NormEvaluation&, Packets, Stream);

}  // namespace lockstep::gpu

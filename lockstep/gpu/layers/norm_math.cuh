#pragma once

#include "lockstep/gpu/layers/norm_tile.cuh"
#include "lockstep/gpu/layers/norm_work.h"
#include "lockstep/gpu/layers/packets.cuh"
#include "lockstep/gpu/layers/reciprocal.cuh"

namespace lockstep::gpu {

// The formulas, for the packets of one thread: all that differs between kernels is where numbers
// come from.

/// Per channel: x is normalized to (x - mean) * scale + bias. Not to x * scale + offset, which
/// cancels where the mean is large.
template <int kCount>
struct Normalization {
  float mean[kCount];
  float scale[kCount];
  float bias[kCount];
};

__device__ inline float inverse_deviation_of(float variance, float epsilon) {
  return reciprocal_root(variance + epsilon);
}

/// Not `fmaxf`: a NaN stays one.
__device__ inline float relu(float value) {
  return value < 0.0F ? 0.0F : value;
}

template <int kCount>
__device__ float normalized(const Normalization<kCount>& normalization, float x, int channel) {
  return fmaf(x - normalization.mean[channel], normalization.scale[channel],
              normalization.bias[channel]);
}

template <bool kHasResidual, typename T, int kCount>
__device__ Packet<T, kCount> normalize(const Normalization<kCount>& normalization, bool is_relu,
                                       const Packet<T, kCount>& x,
                                       const Packet<T, kCount>& residual) {
  float numbers[kCount];
  float added[kCount] = {};
  unpack(x, numbers);
  if constexpr (kHasResidual) unpack(residual, added);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    numbers[i] = normalized(normalization, numbers[i], i);
    if constexpr (kHasResidual) numbers[i] += added[i];
    if (is_relu) numbers[i] = relu(numbers[i]);
  }
  return pack<T, kCount>(numbers);
}

/// The gradients of both users of y, rounded as if their sum had been written to memory.
template <typename T, int kCount>
__device__ Packet<T, kCount> join(const Packet<T, kCount>& dy, const Packet<T, kCount>& second) {
  float sum[kCount];
  float more[kCount];
  unpack(dy, sum);
  unpack(second, more);
#pragma unroll
  for (int i = 0; i < kCount; ++i) sum[i] += more[i];
  return pack<T, kCount>(sum);
}

/// Bit i: where the ReLU let number i pass. A NaN lets the gradient pass, as in libtorch.
template <typename T, int kCount>
__device__ unsigned marks_of(const Packet<T, kCount>& y) {
  float numbers[kCount];
  unsigned marks = 0;
  unpack(y, numbers);
#pragma unroll
  for (int i = 0; i < kCount; ++i) marks |= numbers[i] <= 0.0F ? 0U : 1U << i;
  return marks;
}

template <typename T, int kCount>
__device__ void pass_marks(unsigned marks, Packet<T, kCount>& gradient) {
  bool passes[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) passes[i] = ((marks >> i) & 1U) != 0;
  keep_where(passes, gradient);
}

/// Of the packet at `offset` numbers.
template <NormGate gate, int kCount, typename T>
__device__ unsigned load_marks(const BackwardWork<T>& work, std::int64_t offset) {
  if constexpr (gate == NormGate::Output) {
    return marks_of(load_packet<kCount, Reading::Again>(work.y + offset));
  } else {
    const unsigned marks = load<Reading::Again>(work.marks + offset / kWide<T>);
    return kCount == 1 ? marks >> (offset % kWide<T>) : marks;
  }
}

/// y, and its marks where they are wanted, which takes a residual: a store of bytes, even one that
/// is never made, keeps the compiler from reading ahead.
template <bool kHasResidual, typename T, int kCount>
__device__ void store_output(const ForwardWork<T>& work, const Packet<T, kCount>& y,
                             std::int64_t offset) {
  store_packet(y, work.y + offset);
  if constexpr (kHasResidual && kCount == kWide<T>) {
    if (work.marks == nullptr) return;
    work.marks[offset / kWide<T>] = static_cast<std::uint8_t>(marks_of(y));
  }
}

template <typename T, int kCount>
__device__ void pass_input_gate(const Normalization<kCount>& normalization,
                                const Packet<T, kCount>& x, Packet<T, kCount>& gradient) {
  float numbers[kCount];
  bool passes[kCount];
  unpack(x, numbers);
#pragma unroll
  for (int i = 0; i < kCount; ++i) passes[i] = !(normalized(normalization, numbers[i], i) <= 0.0F);
  keep_where(passes, gradient);
}

template <typename T, int kCount, typename Sums>
__device__ void add_gradient(const float (&mean)[kCount], const Packet<T, kCount>& x,
                             const Packet<T, kCount>& gradient, Sums& sums) {
  float numbers[kCount];
  float gradients[kCount];
  unpack(x, numbers);
  unpack(gradient, gradients);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    sums.first[i] += gradients[i];
    sums.second[i] = fmaf(gradients[i], numbers[i] - mean[i], sums.second[i]);
  }
}

/// Per channel: dx = gradient * scale + ((x - mean) * slope + constant). Slope and constant take
/// away what x changes by way of the group's mean and variance.
template <int kCount>
struct InputGradient {
  float mean[kCount];
  float scale[kCount];
  float slope[kCount];
  float constant[kCount];
};

struct ChannelInputGradient {
  float slope;
  float constant;
};

/// From what a group adds to the gradients of weight and bias.
__device__ inline ChannelInputGradient input_gradient_of(float weight_sum, float bias_sum,
                                                         float scale, float inverse_deviation,
                                                         float rows) {
  const float share = reciprocal(rows);
  return {-scale * inverse_deviation * (weight_sum * share), -scale * (bias_sum * share)};
}

template <typename T, int kCount>
__device__ Packet<T, kCount> input_gradient(const InputGradient<kCount>& constants,
                                            const Packet<T, kCount>& x,
                                            const Packet<T, kCount>& gradient) {
  float numbers[kCount];
  float gradients[kCount];
  unpack(x, numbers);
  unpack(gradient, gradients);
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const float linear =
        fmaf(numbers[i] - constants.mean[i], constants.slope[i], constants.constant[i]);
    numbers[i] = fmaf(gradients[i], constants.scale[i], linear);
  }
  return pack<T, kCount>(numbers);
}

}  // namespace lockstep::gpu

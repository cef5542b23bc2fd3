#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "lockstep/base/data_type.h"
#include "lockstep/base/half.h"
#include "lockstep/data/transform/row_kernels.h"
#include "lockstep/gpu/pictures/host_device.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#endif

// How levels of 8 bits become numbers of the output, with the bits of data's row kernels. Whoever
// includes it compiles without contraction.
namespace lockstep::gpu {

using data::kernels::Division;

LOCKSTEP_HOST_DEVICE float fused_multiply_add(float a, float b, float c) {
#ifdef __CUDA_ARCH__
  return __fmaf_rn(a, b, c);
#else
  return std::fma(a, b, c);
#endif
}

LOCKSTEP_HOST_DEVICE float divide_corrected(float x, float divisor, float reciprocal) {
  const float quotient = x * reciprocal;
  const float rest = fused_multiply_add(quotient, -divisor, x);
  return fused_multiply_add(rest, reciprocal, quotient);
}

template <Division division>
LOCKSTEP_HOST_DEVICE float normalized(float level, float mean, float deviation, float reciprocal) {
  if constexpr (division == Division::Correct) {
    const float share = divide_corrected(level, 255.0F, 1.0F / 255.0F);
    return divide_corrected(share - mean, deviation, reciprocal);
  } else {
    return (level / 255.0F - mean) / deviation;
  }
}

/// A GPU converts integers at a quarter of its speed; an f32 of 2^23 and more has them in its bits.
LOCKSTEP_HOST_DEVICE float float_of(std::int32_t level) {
#ifdef __CUDA_ARCH__
  return __int_as_float(level + 0x4b000000) - 0x1p23F;
#else
  return static_cast<float>(level);
#endif
}

/// One of the four levels in a word.
LOCKSTEP_HOST_DEVICE float level_in(std::uint32_t word, int i) {
#ifdef __CUDA_ARCH__
  return __uint_as_float(__byte_perm(word, 0x4b000000U, 0x7550U + static_cast<unsigned>(i))) -
         0x1p23F;
#else
  return static_cast<float>((word >> (8 * i)) & 0xffU);
#endif
}

/// What is read or written at once: up to 16 bytes, at a multiple of their number.
template <int count>
struct Words {
  std::uint32_t word[count];
};

template <int count>
LOCKSTEP_HOST_DEVICE void store_words(const Words<count>& words, void* to) {
  static_assert(count == 1 || count == 2 || count == 4);
#ifdef __CUDA_ARCH__
  if constexpr (count == 1) *static_cast<unsigned*>(to) = words.word[0];
  if constexpr (count == 2) *static_cast<uint2*>(to) = make_uint2(words.word[0], words.word[1]);
  if constexpr (count == 4) {
    *static_cast<uint4*>(to) =
        make_uint4(words.word[0], words.word[1], words.word[2], words.word[3]);
  }
#else
  std::memcpy(to, words.word, sizeof(words.word));
#endif
}

template <int count>
LOCKSTEP_HOST_DEVICE Words<count> load_words(const void* from) {
  static_assert(count == 1 || count == 2);
  Words<count> words;
#ifdef __CUDA_ARCH__
  if constexpr (count == 1) words.word[0] = *static_cast<const unsigned*>(from);
  if constexpr (count == 2) {
    const uint2 both = *static_cast<const uint2*>(from);
    words.word[0] = both.x;
    words.word[1] = both.y;
  }
#else
  std::memcpy(words.word, from, sizeof(words.word));
#endif
  return words;
}

LOCKSTEP_HOST_DEVICE std::uint32_t bits_of(float value) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(value);
#else
  return std::bit_cast<std::uint32_t>(value);
#endif
}

/// Rounded to nearest, ties to even. There are no NaNs here, on whose bits GPUs disagree.
LOCKSTEP_HOST_DEVICE void narrow(float value, BFloat16& out) {
#ifdef __CUDA_ARCH__
  out.bits = __bfloat16_as_ushort(__float2bfloat16_rn(value));
#else
  out = to_bfloat16(value);
#endif
}

LOCKSTEP_HOST_DEVICE void narrow(float value, Float16& out) {
#ifdef __CUDA_ARCH__
  out.bits = __half_as_ushort(__float2half_rn(value));
#else
  out = to_float16(value);
#endif
}

LOCKSTEP_HOST_DEVICE void narrow(float value, float& out) {
  out = value;
}

/// Two numbers of 16 bits in a word; a GPU has an instruction for both at once.
template <typename T>
LOCKSTEP_HOST_DEVICE std::uint32_t narrow_pair(float lower, float upper) {
#ifdef __CUDA_ARCH__
  if constexpr (std::is_same_v<T, BFloat16>) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(lower, upper);
    return __bfloat16_as_ushort(pair.x) |
           (static_cast<std::uint32_t>(__bfloat16_as_ushort(pair.y)) << 16);
  } else {
    const __half2 pair = __floats2half2_rn(lower, upper);
    return __half_as_ushort(__low2half(pair)) |
           (static_cast<std::uint32_t>(__half_as_ushort(__high2half(pair))) << 16);
  }
#else
  T low;
  T high;
  narrow(lower, low);
  narrow(upper, high);
  return low.bits | (static_cast<std::uint32_t>(high.bits) << 16);
#endif
}

/// V numbers that follow each other; with V > 1 they begin at a multiple of their bytes, or of 16.
template <typename T, int V>
LOCKSTEP_HOST_DEVICE void store_numbers(const float (&values)[V], T* out) {
  if constexpr (V == 1) {
    narrow(values[0], *out);
  } else if constexpr (sizeof(T) == sizeof(float)) {
    LOCKSTEP_UNROLL
    for (int i = 0; i < V; i += 4) {
      store_words(Words<4>{{bits_of(values[i]), bits_of(values[i + 1]), bits_of(values[i + 2]),
                            bits_of(values[i + 3])}},
                  out + i);
    }
  } else {
    Words<V / 2> words;
    LOCKSTEP_UNROLL
    for (int i = 0; i < V / 2; ++i) {
      words.word[i] = narrow_pair<T>(values[2 * i], values[2 * i + 1]);
    }
    store_words(words, out);
  }
}

template <int V>
LOCKSTEP_HOST_DEVICE void store_levels(const std::int32_t (&levels)[V], std::uint8_t* out) {
  if constexpr (V == 1) {
    *out = static_cast<std::uint8_t>(levels[0]);
  } else {
    Words<V / 4> words;
    LOCKSTEP_UNROLL
    for (int i = 0; i < V / 4; ++i) {
      words.word[i] = static_cast<std::uint32_t>(levels[4 * i] | (levels[4 * i + 1] << 8) |
                                                 (levels[4 * i + 2] << 16)) |
                      (static_cast<std::uint32_t>(levels[4 * i + 3]) << 24);
    }
    store_words(words, out);
  }
}

/// What belongs to the channels of numbers that follow each other, in registers: those of the first
/// number come first. C is the number of channels, or 0 for any, which are read again for each.
template <int C>
struct ChannelNumbers {
  float means[C];
  float deviations[C];
  float reciprocals[C];
  float erased_levels[C];

  LOCKSTEP_HOST_DEVICE ChannelNumbers(const float* values, std::int32_t, std::int32_t first) {
    LOCKSTEP_UNROLL
    for (int i = 0; i < C; ++i) {
      const int c = (first + i) % C;
      means[i] = values[c];
      deviations[i] = values[C + c];
      reciprocals[i] = values[2 * C + c];
      erased_levels[i] = values[3 * C + c];
    }
  }
  LOCKSTEP_HOST_DEVICE float mean(int i) const { return means[i % C]; }
  LOCKSTEP_HOST_DEVICE float deviation(int i) const { return deviations[i % C]; }
  LOCKSTEP_HOST_DEVICE float reciprocal(int i) const { return reciprocals[i % C]; }
  LOCKSTEP_HOST_DEVICE float erased_level(int i) const { return erased_levels[i % C]; }
};

template <>
struct ChannelNumbers<0> {
  const float* values;
  std::int32_t channels;
  std::int32_t first;

  LOCKSTEP_HOST_DEVICE ChannelNumbers(const float* all, std::int32_t count, std::int32_t begin)
      : values(all), channels(count), first(begin) {}
  LOCKSTEP_HOST_DEVICE std::int32_t channel(int i) const { return (first + i) % channels; }
  LOCKSTEP_HOST_DEVICE float mean(int i) const { return values[channel(i)]; }
  LOCKSTEP_HOST_DEVICE float deviation(int i) const { return values[channels + channel(i)]; }
  LOCKSTEP_HOST_DEVICE float reciprocal(int i) const { return values[2 * channels + channel(i)]; }
  LOCKSTEP_HOST_DEVICE float erased_level(int i) const { return values[3 * channels + channel(i)]; }
};

/// Converts V levels that follow each other. Bit i of `erased` makes the i-th number 0.
template <Division division, typename T, int C, int V>
LOCKSTEP_HOST_DEVICE void convert_run(const float (&levels)[V], const ChannelNumbers<C>& numbers,
                                      std::uint32_t erased, T* out) {
  float values[V];
  LOCKSTEP_UNROLL
  for (int i = 0; i < V; ++i) {
    const float value = normalized<division>(levels[i], numbers.mean(i), numbers.deviation(i),
                                             numbers.reciprocal(i));
    values[i] = ((erased >> i) & 1U) != 0 ? 0.0F : value;
  }
  store_numbers(values, out);
}

}  // namespace lockstep::gpu

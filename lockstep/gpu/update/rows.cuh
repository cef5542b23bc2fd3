#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "lockstep/base/half.h"

namespace lockstep::gpu {

// What kernels over flat rows share. Each element gets the same instructions whether it is one of
// a vector or alone.

inline constexpr int kThreads = 256;
inline constexpr int kVector = 4;  ///< elements of one access of 16 bytes

template <int width>
using Width = std::integral_constant<int, width>;

/// Whether there is a vector at every `kVector`-th element of a row that begins here.
inline __device__ bool is_aligned(const void* row, std::size_t element_bytes = sizeof(float)) {
  return reinterpret_cast<std::uintptr_t>(row) % (kVector * element_bytes) == 0;
}

template <int width>
__device__ void load(const float* from, float (&to)[width]) {
  if constexpr (width == 1) {
    to[0] = *from;
  } else {
    static_assert(width == kVector);
    const auto vector = *reinterpret_cast<const float4*>(from);
    to[0] = vector.x;
    to[1] = vector.y;
    to[2] = vector.z;
    to[3] = vector.w;
  }
}

template <int width>
__device__ void load(const std::uint16_t* from, std::uint16_t (&to)[width]) {
  if constexpr (width == 1) {
    to[0] = *from;
  } else {
    static_assert(width == kVector);
    const auto vector = *reinterpret_cast<const ushort4*>(from);
    to[0] = vector.x;
    to[1] = vector.y;
    to[2] = vector.z;
    to[3] = vector.w;
  }
}

template <int width>
__device__ void store(const float (&from)[width], float* to) {
  if constexpr (width == 1) {
    *to = from[0];
  } else {
    static_assert(width == kVector);
    *reinterpret_cast<float4*>(to) = make_float4(from[0], from[1], from[2], from[3]);
  }
}

template <DataType type>
__device__ std::uint16_t to_half(float value) {
  static_assert(type == DataType::F16 || type == DataType::BF16);
  if constexpr (type == DataType::F16) {
    return to_float16(value).bits;
  } else {
    return to_bfloat16(value).bits;
  }
}

template <DataType type>
__device__ float from_half(std::uint16_t bits) {
  static_assert(type == DataType::F16 || type == DataType::BF16);
  if constexpr (type == DataType::F16) {
    return to_float(Float16{bits});
  } else {
    return to_float(BFloat16{bits});
  }
}

template <DataType type, int width>
__device__ void store_half(const float (&from)[width], std::uint16_t* to) {
  if constexpr (width == 1) {
    *to = to_half<type>(from[0]);
  } else {
    static_assert(width == kVector);
    *reinterpret_cast<ushort4*>(to) = make_ushort4(to_half<type>(from[0]), to_half<type>(from[1]),
                                                   to_half<type>(from[2]), to_half<type>(from[3]));
  }
}

/// How a block of threads goes through neighbouring elements: as vectors, and one by one those
/// before the first whole vector and behind the last.
struct Runs {
  std::int64_t first;
  std::int64_t vectors_begin;
  std::int64_t vectors_end;
  int num_single;

  __device__ Runs(std::int64_t begin, std::int64_t count, bool has_vectors) : first(begin) {
    const auto end = begin + count;
    const auto next = (begin + kVector - 1) / kVector * kVector;
    vectors_begin = has_vectors && next < end ? next : end;
    vectors_end = vectors_begin + (end - vectors_begin) / kVector * kVector;
    num_single = static_cast<int>(count - (vectors_end - vectors_begin));
  }

  __device__ std::int64_t single(int index) const {
    const auto element = first + index;
    return element < vectors_begin ? element : element + (vectors_end - vectors_begin);
  }
};

/// Calls `action(element, Width<n>())` for each n elements, on the threads of a block.
template <typename Action>
__device__ void for_elements(const Runs& runs, const Action& action) {
  constexpr int kStride = kVector * kThreads;
  for (auto i = runs.vectors_begin + kVector * threadIdx.x; i < runs.vectors_end; i += kStride) {
    action(i, Width<kVector>());
  }
  for (int i = threadIdx.x; i < runs.num_single; i += kThreads) action(runs.single(i), Width<1>());
}

/// Divides as the CPU does. By a power of two, which most divisors are, a multiplication gives the
/// same bits, sooner.
class Divisor {
 public:
  explicit __device__ Divisor(float divisor)
      : divisor_(divisor), inverse_(1 / divisor), is_power_(is_power_of_two(divisor)) {}

  __device__ float operator()(float value) const {
    return is_power_ ? value * inverse_ : value / divisor_;
  }

  template <int width>
  __device__ void divide(float (&values)[width]) const {
    if (is_power_) {
      for (auto& value : values) value *= inverse_;
    } else {
      for (auto& value : values) value /= divisor_;
    }
  }

 private:
  /// Also one whose inverse is a normal number.
  static __device__ bool is_power_of_two(float value) {
    const auto bits = __float_as_uint(value);
    const auto exponent = bits >> 23;  // with the sign, which makes it too large
    return (bits & 0x7fffffU) == 0 && exponent >= 1 && exponent <= 253;
  }

  float divisor_;
  float inverse_;
  bool is_power_;
};

}  // namespace lockstep::gpu

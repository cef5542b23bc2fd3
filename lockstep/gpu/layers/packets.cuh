#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

#include "lockstep/base/data_type.h"

namespace lockstep::gpu {

/// The numbers in 4 bytes of memory; a single one of 2 bytes is the lower half of such a word.
template <typename T>
struct Word;

template <>
struct Word<float> {
  static constexpr int kNumbers = 1;
  static __device__ void unpack(std::uint32_t word, float (&numbers)[1]) {
    numbers[0] = __uint_as_float(word);
  }
  static __device__ std::uint32_t pack(const float (&numbers)[1]) {
    return __float_as_uint(numbers[0]);
  }
};

template <>
struct Word<BFloat16> {
  static constexpr int kNumbers = 2;
  static __device__ void unpack(std::uint32_t word, float (&numbers)[2]) {
    numbers[0] = __uint_as_float(word << 16);
    numbers[1] = __uint_as_float(word & 0xffff0000U);
  }
  static __device__ std::uint32_t pack(const float (&numbers)[2]) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(numbers[0], numbers[1]);
    return __bfloat16_as_ushort(pair.x) | static_cast<std::uint32_t>(__bfloat16_as_ushort(pair.y))
                                              << 16;
  }
};

template <>
struct Word<Float16> {
  static constexpr int kNumbers = 2;
  static __device__ void unpack(std::uint32_t word, float (&numbers)[2]) {
    numbers[0] = __half2float(__ushort_as_half(static_cast<unsigned short>(word & 0xffffU)));
    numbers[1] = __half2float(__ushort_as_half(static_cast<unsigned short>(word >> 16)));
  }
  static __device__ std::uint32_t pack(const float (&numbers)[2]) {
    const __half2 pair = __floats2half2_rn(numbers[0], numbers[1]);
    return __half_as_ushort(pair.x) | static_cast<std::uint32_t>(__half_as_ushort(pair.y)) << 16;
  }
};

/// Channels in 16 bytes.
template <typename T>
inline constexpr int kWide = 16 / static_cast<int>(sizeof(T));

/// Neighbouring channels of a row, as they lie in memory: 16 bytes of them, or a single one where
/// memory is not aligned for more; in registers, halves too.
template <typename T, int kCount>
struct Packet {
  static constexpr int kWords = kCount / Word<T>::kNumbers > 1 ? kCount / Word<T>::kNumbers : 1;
  std::uint32_t words[kWords];
};

/// The lower or the upper half of a packet. Loops over halves need half the numbers per channel at
/// a time, and so fewer registers.
template <int half, typename T, int kCount>
__device__ Packet<T, kCount / 2> half_of(const Packet<T, kCount>& packet) {
  static_assert(kCount == kWide<T>);
  return {{packet.words[2 * half], packet.words[2 * half + 1]}};
}

template <int half, typename T, int kCount>
__device__ void set_half(const Packet<T, kCount / 2>& from, Packet<T, kCount>& packet) {
  packet.words[2 * half] = from.words[0];
  packet.words[2 * half + 1] = from.words[1];
}

template <typename T, int kCount>
__device__ void unpack(const Packet<T, kCount>& packet, float (&numbers)[kCount]) {
  constexpr int kPerWord = Word<T>::kNumbers;
#pragma unroll
  for (int word = 0; word < Packet<T, kCount>::kWords; ++word) {
    float some[kPerWord];
    Word<T>::unpack(packet.words[word], some);
#pragma unroll
    for (int i = 0; i < kPerWord && word * kPerWord + i < kCount; ++i) {
      numbers[word * kPerWord + i] = some[i];
    }
  }
}

template <typename T, int kCount>
__device__ Packet<T, kCount> pack(const float (&numbers)[kCount]) {
  constexpr int kPerWord = Word<T>::kNumbers;
  Packet<T, kCount> packet;
#pragma unroll
  for (int word = 0; word < Packet<T, kCount>::kWords; ++word) {
    float some[kPerWord] = {};
#pragma unroll
    for (int i = 0; i < kPerWord && word * kPerWord + i < kCount; ++i) {
      some[i] = numbers[word * kPerWord + i];
    }
    packet.words[word] = Word<T>::pack(some);
  }
  return packet;
}

/// Sets to zero what is not to be kept, without a conversion.
template <typename T, int kCount>
__device__ void keep_where(const bool (&keep)[kCount], Packet<T, kCount>& packet) {
  constexpr int kPerWord = Word<T>::kNumbers;
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    const std::uint32_t cleared = kPerWord == 1 ? 0U : i % 2 == 0 ? 0xffff0000U : 0x0000ffffU;
    if (!keep[i]) packet.words[i / kPerWord] &= cleared;
  }
}

template <typename T, int kCount>
__device__ Packet<T, kCount> zeros() {
  Packet<T, kCount> packet;
#pragma unroll
  for (auto& word : packet.words) word = 0;
  return packet;
}

/// Whether what is read will be read again soon, and should stay in the cache of the chip.
enum class Reading { Once, Again };

/// Never through the read-only cache: results may lie where inputs were.
template <Reading reading, typename Number>
__device__ Number load(const Number* from) {
  if constexpr (reading == Reading::Once) {
    return __ldcs(from);
  } else {
    return __ldcg(from);
  }
}

template <int kCount, Reading reading, typename T>
__device__ Packet<T, kCount> load_packet(const T* from) {
  static_assert(kCount == 1 || kCount == kWide<T>);
  if constexpr (kCount > 1) {
    const auto all = load<reading>(reinterpret_cast<const uint4*>(from));
    return {{all.x, all.y, all.z, all.w}};
  } else if constexpr (sizeof(T) == 4) {
    return {{load<reading>(reinterpret_cast<const unsigned int*>(from))}};
  } else {
    return {{load<reading>(reinterpret_cast<const unsigned short*>(from))}};
  }
}

template <typename T, int kCount>
__device__ void store_packet(const Packet<T, kCount>& packet, T* to) {
  static_assert(kCount == 1 || kCount == kWide<T>);
  if constexpr (kCount > 1) {
    *reinterpret_cast<uint4*>(to) =
        make_uint4(packet.words[0], packet.words[1], packet.words[2], packet.words[3]);
  } else if constexpr (sizeof(T) == 4) {
    *reinterpret_cast<unsigned int*>(to) = packet.words[0];
  } else {
    *reinterpret_cast<unsigned short*>(to) = static_cast<unsigned short>(packet.words[0]);
  }
}

}  // namespace lockstep::gpu

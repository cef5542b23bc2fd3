#pragma once

#include <bit>
#include <cstdint>

#include "lockstep/base/data_type.h"

namespace lockstep {

// Conversions between 16-bit floats and f32: to nearest, ties to even, in integer steps and without
// branches (those of f16 after Fabian Giesen). The same bits with and without the processor's own
// instructions for it, and compilers turn loops over them into vector code.

constexpr float to_float(BFloat16 value) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value.bits) << 16);
}

constexpr BFloat16 to_bfloat16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto rounded = (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  const auto quiet_nan = (bits >> 16) | 0x40U;
  const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;
  return {static_cast<std::uint16_t>(is_nan ? quiet_nan : rounded)};
}

constexpr float to_float(Float16 value) noexcept {
  constexpr std::uint32_t kExponent = 0x7c00U << 13;
  constexpr auto kSmallest = std::bit_cast<float>(113U << 23);
  const auto magnitude = static_cast<std::uint32_t>(value.bits & 0x7fffU) << 13;
  const auto sign = static_cast<std::uint32_t>(value.bits & 0x8000U) << 16;
  const auto exponent = magnitude & kExponent;
  const auto normal = magnitude + (112U << 23);
  const auto special = normal + (112U << 23);
  const auto subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(normal + (1U << 23)) - kSmallest);
  const auto bits = exponent == kExponent ? special : exponent == 0 ? subnormal : normal;
  return std::bit_cast<float>(bits | sign);
}

constexpr Float16 to_float16(float value) noexcept {
  constexpr std::uint32_t kInfinity = 255U << 23;
  constexpr std::uint32_t kOverflow = (127U + 16U) << 23;
  constexpr std::uint32_t kSmallestNormal = 113U << 23;
  constexpr std::uint32_t kMagic = (127U - 15U + 23U - 10U + 1U) << 23;
  const auto all = std::bit_cast<std::uint32_t>(value);
  const auto sign = all & 0x80000000U;
  const auto bits = all ^ sign;
  const auto special = bits > kInfinity ? 0x7e00U : 0x7c00U;
  const auto subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(bits) + std::bit_cast<float>(kMagic)) -
      kMagic;
  const auto normal = (bits - (112U << 23) + 0xfffU + ((bits >> 13) & 1U)) >> 13;
  const auto half = bits >= kOverflow ? special : bits < kSmallestNormal ? subnormal : normal;
  return {static_cast<std::uint16_t>(half | (sign >> 16))};
}

}  // namespace lockstep

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lockstep/base/export.h"

namespace lockstep {

/// IEEE 754 binary16, as its bits.
struct Float16 {
  std::uint16_t bits;
  bool operator==(const Float16&) const = default;
};

/// The upper half of an f32, as its bits.
struct BFloat16 {
  std::uint16_t bits;
  bool operator==(const BFloat16&) const = default;
};

/// What the elements of a buffer are.
enum class DataType : std::uint8_t { F16, BF16, F32, F64, I32, I64, U8 };

LOCKSTEP_API std::size_t size_of(DataType type) noexcept;
LOCKSTEP_API std::string_view name_of(DataType type) noexcept;

/// The `DataType` of a C++ type; a type without one does not compile.
template <typename T>
inline constexpr DataType kTypeOf = T::has_no_data_type;
template <>
inline constexpr DataType kTypeOf<Float16> = DataType::F16;
template <>
inline constexpr DataType kTypeOf<BFloat16> = DataType::BF16;
template <>
inline constexpr DataType kTypeOf<float> = DataType::F32;
template <>
inline constexpr DataType kTypeOf<double> = DataType::F64;
template <>
inline constexpr DataType kTypeOf<std::int32_t> = DataType::I32;
template <>
inline constexpr DataType kTypeOf<std::int64_t> = DataType::I64;
template <>
inline constexpr DataType kTypeOf<std::uint8_t> = DataType::U8;

}  // namespace lockstep

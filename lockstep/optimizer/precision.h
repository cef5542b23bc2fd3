#pragma once

#include <cstdint>
#include <string_view>

#include "lockstep/base/data_type.h"
#include "lockstep/base/export.h"

namespace lockstep {

/// `A.B`: bits of the input, bits of the model.
enum class Precision : std::uint8_t { P32_32, P16_32, P16_16 };

/// Which 16 bits.
enum class Half : std::uint8_t { BF16, F16 };

/// How gradients of micro-batches and replicas become one: divided by their number, or not.
enum class Reduction : std::uint8_t { Mean, Sum };

enum class ReductionOrder : std::uint8_t {
  Ordered,  ///< along one tree over replicas: the same bits on any layout
  Fast,     ///< whatever the transport likes best
};

/// What the model's input is rounded to, and what gradients are.
constexpr DataType input_type(Precision precision, Half half) noexcept {
  if (precision == Precision::P32_32) return DataType::F32;
  return half == Half::F16 ? DataType::F16 : DataType::BF16;
}
constexpr DataType gradient_type(Precision precision, Half half) noexcept {
  return precision == Precision::P16_16 ? input_type(precision, half) : DataType::F32;
}

/// "32.32", "16.32", "16.16"; "bf16", "fp16"; "mean", "sum"; "ordered", "fast". Throw `Options`,
/// with the choices, for other words.
LOCKSTEP_API Precision parse_precision(std::string_view text);
LOCKSTEP_API Half parse_half(std::string_view text);
LOCKSTEP_API Reduction parse_reduction(std::string_view text);
LOCKSTEP_API ReductionOrder parse_reduction_order(std::string_view text);

LOCKSTEP_API std::string_view name_of(Precision precision) noexcept;
LOCKSTEP_API std::string_view name_of(Half half) noexcept;
LOCKSTEP_API std::string_view name_of(Reduction reduction) noexcept;
LOCKSTEP_API std::string_view name_of(ReductionOrder order) noexcept;

}  // namespace lockstep

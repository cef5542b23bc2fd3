#pragma once

#include <cstdint>
#include <string_view>

#include "lockstep/base/export.h"

namespace lockstep::comm {

/// How elements are combined. 16-bit floats are combined in f32, integers in i64 (a sum or product
/// that does not fit keeps its low bits; a mean rounds towards zero). A NaN wins over any number.
enum class ReduceOp : std::uint8_t { Sum, Mean, Min, Max, Product };

LOCKSTEP_API std::string_view name_of(ReduceOp op) noexcept;

}  // namespace lockstep::comm

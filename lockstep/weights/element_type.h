#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "lockstep/base/data_type.h"
#include "lockstep/base/export.h"

namespace lockstep::weights {

/// What the elements of a stored tensor are. More than `DataType`, which has what can be reduced
/// and trained: weight files also keep masks and counters.
enum class ElementType : std::uint8_t {
  Bool,
  U8,
  I8,
  I16,
  U16,
  I32,
  U32,
  I64,
  U64,
  F16,
  BF16,
  F32,
  F64
};

LOCKSTEP_API std::size_t size_of(ElementType type) noexcept;
/// "f32", for messages and digests.
LOCKSTEP_API std::string_view name_of(ElementType type) noexcept;

LOCKSTEP_API ElementType element_type(DataType type) noexcept;
/// Nothing where lockstep does not compute with it.
LOCKSTEP_API std::optional<DataType> data_type(ElementType type) noexcept;

/// "F32", as safetensors files call it; nothing where the name is none of ours.
LOCKSTEP_API std::string_view safetensors_name(ElementType type) noexcept;
LOCKSTEP_API std::optional<ElementType> from_safetensors_name(std::string_view name) noexcept;

}  // namespace lockstep::weights

#include "lockstep/weights/element_type.h"

#include <array>

namespace lockstep::weights {
namespace {

struct TypeRow {
  ElementType type;
  std::size_t size;
  std::string_view name;
  std::string_view safetensors;
  std::optional<DataType> data_type;
};

// In the order of the enumeration, so that a type is its own index.
constexpr std::array kTypes{
    TypeRow{ElementType::Bool, 1, "bool", "BOOL", std::nullopt},
    TypeRow{ElementType::U8, 1, "u8", "U8", DataType::U8},
    TypeRow{ElementType::I8, 1, "i8", "I8", std::nullopt},
    TypeRow{ElementType::I16, 2, "i16", "I16", std::nullopt},
    TypeRow{ElementType::U16, 2, "u16", "U16", std::nullopt},
    TypeRow{ElementType::I32, 4, "i32", "I32", DataType::I32},
    TypeRow{ElementType::U32, 4, "u32", "U32", std::nullopt},
    TypeRow{ElementType::I64, 8, "i64", "I64", DataType::I64},
    TypeRow{ElementType::U64, 8, "u64", "U64", std::nullopt},
    TypeRow{ElementType::F16, 2, "f16", "F16", DataType::F16},
    TypeRow{ElementType::BF16, 2, "bf16", "BF16", DataType::BF16},
    TypeRow{ElementType::F32, 4, "f32", "F32", DataType::F32},
    TypeRow{ElementType::F64, 8, "f64", "F64", DataType::F64},
};

constexpr const TypeRow& row(ElementType type) {
  return kTypes[static_cast<std::size_t>(type)];
}

constexpr bool is_in_order() {
  for (std::size_t i = 0; i < kTypes.size(); ++i) {
    if (static_cast<std::size_t>(kTypes[i].type) != i) return false;
  }
  return true;
}
static_assert(is_in_order());

}  // namespace

std::size_t size_of(ElementType type) noexcept {
  return row(type).size;
}

std::string_view name_of(ElementType type) noexcept {
  return row(type).name;
}

std::string_view safetensors_name(ElementType type) noexcept {
  return row(type).safetensors;
}

std::optional<DataType> data_type(ElementType type) noexcept {
  return row(type).data_type;
}

ElementType element_type(DataType type) noexcept {
  for (const auto& known : kTypes) {
    if (known.data_type == type) return known.type;
  }
  return ElementType::U8;  // not reached: every DataType has a row
}

std::optional<ElementType> from_safetensors_name(std::string_view name) noexcept {
  for (const auto& known : kTypes) {
    if (known.safetensors == name) return known.type;
  }
  return std::nullopt;
}

}  // namespace lockstep::weights

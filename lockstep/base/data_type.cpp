#include "lockstep/base/data_type.h"

namespace lockstep {

std::size_t size_of(DataType type) noexcept {
  switch (type) {
    case DataType::U8:
      return 1;
    case DataType::F16:
    case DataType::BF16:
      return 2;
    case DataType::F32:
    case DataType::I32:
      return 4;
    case DataType::F64:
    case DataType::I64:
      return 8;
  }
  return 0;
}

std::string_view name_of(DataType type) noexcept {
  switch (type) {
    case DataType::F16:
      return "f16";
    case DataType::BF16:
      return "bf16";
    case DataType::F32:
      return "f32";
    case DataType::F64:
      return "f64";
    case DataType::I32:
      return "i32";
    case DataType::I64:
      return "i64";
    case DataType::U8:
      return "u8";
  }
  return "?";
}

}  // namespace lockstep

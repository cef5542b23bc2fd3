#include "lockstep/nn/scalar_types.h"

#include <array>
#include <string>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::nn {
namespace {

constexpr std::array<std::pair<DataType, at::ScalarType>, 7> kTypes{{
    {DataType::U8, at::kByte},
    {DataType::I32, at::kInt},
    {DataType::I64, at::kLong},
    {DataType::F16, at::kHalf},
    {DataType::BF16, at::kBFloat16},
    {DataType::F32, at::kFloat},
    {DataType::F64, at::kDouble},
}};

}  // namespace

at::ScalarType scalar_type_of(DataType type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (ours == type) return theirs;
  }
  throw Error(ErrorKind::Bug, "types: one that libtorch has none for");
}

DataType data_type_of(at::ScalarType type) {
  for (const auto& [ours, theirs] : kTypes) {
    if (theirs == type) return ours;
  }
  throw Error(ErrorKind::Bug,
              std::string("types: expected one of ours, found ") + c10::toString(type));
}

}  // namespace lockstep::nn

#include "lockstep/comm/reduce_kernels.h"

#include <algorithm>
#include <bit>
#include <type_traits>

#include "lockstep/base/half.h"

// Highway compiles this file once for each vector unit; the loops are plain, and the compiler
// turns them into that unit's instructions.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "lockstep/comm/reduce_kernels.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace lockstep::comm::HWY_NAMESPACE {
namespace {

template <typename T>
struct Adds {
  T operator()(T left, T right) const {
    if constexpr (std::is_integral_v<T>) {
      using Wrapping = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Wrapping>(left) + static_cast<Wrapping>(right));
    } else {
      return left + right;
    }
  }
};

template <typename T>
struct Multiplies {
  T operator()(T left, T right) const {
    if constexpr (std::is_integral_v<T>) {
      using Wrapping = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<Wrapping>(left) * static_cast<Wrapping>(right));
    } else {
      return left * right;
    }
  }
};

template <typename T>
bool is_nan(T value) {
  if constexpr (std::is_integral_v<T>) {
    return false;
  } else {
    return __builtin_isnan(value);
  }
}

/// A NaN on the right makes the comparison false, and so wins too.
template <typename T>
struct Minimum {
  T operator()(T left, T right) const { return left <= right || is_nan(left) ? left : right; }
};

template <typename T>
struct Maximum {
  T operator()(T left, T right) const { return left >= right || is_nan(left) ? left : right; }
};

template <typename T, typename Function>
HWY_ATTR void for_pairs(const void* left, const void* right, void* out, std::size_t count,
                        Function function) {
  const auto* a = static_cast<const T*>(left);
  const auto* b = static_cast<const T*>(right);
  auto* c = static_cast<T*>(out);
  // `out` may be `a` or `b`, but never overlaps them otherwise.
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) c[i] = function(a[i], b[i]);
}

template <typename T>
HWY_ATTR void combine_as(ReduceOp op, const void* left, const void* right, void* out,
                         std::size_t count) {
  switch (op) {
    case ReduceOp::Sum:
    case ReduceOp::Mean:
      return for_pairs<T>(left, right, out, count, Adds<T>());
    case ReduceOp::Min:
      return for_pairs<T>(left, right, out, count, Minimum<T>());
    case ReduceOp::Max:
      return for_pairs<T>(left, right, out, count, Maximum<T>());
    case ReduceOp::Product:
      return for_pairs<T>(left, right, out, count, Multiplies<T>());
  }
}

void combine(ReduceOp op, DataType accumulator, const void* left, const void* right, void* out,
             std::size_t count) {
  if (accumulator == DataType::F32) return combine_as<float>(op, left, right, out, count);
  if (accumulator == DataType::F64) return combine_as<double>(op, left, right, out, count);
  return combine_as<std::int64_t>(op, left, right, out, count);
}

template <typename From, typename To, typename Function>
HWY_ATTR void convert(const void* from, void* to, std::size_t count, Function function) {
  const auto* in = static_cast<const From*>(from);
  auto* out = static_cast<To*>(to);
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) out[i] = function(in[i]);
}

/// For types that are their own accumulator.
template <typename T>
void copy(const void* from, void* to, std::size_t count) {
  std::copy_n(static_cast<const T*>(from), count, static_cast<T*>(to));
}

HWY_ATTR void widen(DataType type, const void* from, void* to, std::size_t count) {
  const auto widen_float = [](auto value) { return to_float(value); };
  const auto widen_integer = [](auto value) { return static_cast<std::int64_t>(value); };
  switch (type) {
    case DataType::F16:
      return convert<Float16, float>(from, to, count, widen_float);
    case DataType::BF16:
      return convert<BFloat16, float>(from, to, count, widen_float);
    case DataType::F32:
      return copy<float>(from, to, count);
    case DataType::F64:
      return copy<double>(from, to, count);
    case DataType::I32:
      return convert<std::int32_t, std::int64_t>(from, to, count, widen_integer);
    case DataType::I64:
      return copy<std::int64_t>(from, to, count);
    case DataType::U8:
      return convert<std::uint8_t, std::int64_t>(from, to, count, widen_integer);
  }
}

HWY_ATTR void narrow(DataType type, const void* from, void* to, std::size_t count) {
  switch (type) {
    case DataType::F16:
      return convert<float, Float16>(from, to, count,
                                     [](float value) { return to_float16(value); });
    case DataType::BF16:
      return convert<float, BFloat16>(from, to, count,
                                      [](float value) { return to_bfloat16(value); });
    case DataType::F32:
      return copy<float>(from, to, count);
    case DataType::F64:
      return copy<double>(from, to, count);
    case DataType::I32:
      return convert<std::int64_t, std::int32_t>(
          from, to, count, [](std::int64_t value) { return static_cast<std::int32_t>(value); });
    case DataType::I64:
      return copy<std::int64_t>(from, to, count);
    case DataType::U8:
      return convert<std::int64_t, std::uint8_t>(
          from, to, count, [](std::int64_t value) { return static_cast<std::uint8_t>(value); });
  }
}

template <typename T>
HWY_ATTR void divide_as(void* values, T divisor, std::size_t count) {
  auto* value = static_cast<T*>(values);
  for (std::size_t i = 0; i < count; ++i) value[i] /= divisor;
}

template <typename T>
HWY_ATTR void multiply_by(void* values, T factor, std::size_t count) {
  auto* value = static_cast<T*>(values);
  for (std::size_t i = 0; i < count; ++i) value[i] *= factor;
}

/// To multiply by the inverse of a power of two, which is exact, gives the bits of the division in
/// a fraction of its time.
template <typename T>
void divide_real(void* values, std::int64_t divisor, std::size_t count) {
  if (std::has_single_bit(static_cast<std::uint64_t>(divisor))) {
    return multiply_by(values, T{1} / static_cast<T>(divisor), count);
  }
  divide_as(values, static_cast<T>(divisor), count);
}

void divide(DataType accumulator, void* values, std::int64_t divisor, std::size_t count) {
  if (accumulator == DataType::F32) return divide_real<float>(values, divisor, count);
  if (accumulator == DataType::F64) return divide_real<double>(values, divisor, count);
  divide_as(values, divisor, count);
}

}  // namespace
}  // namespace lockstep::comm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace lockstep::comm {
namespace {

HWY_EXPORT(combine);
HWY_EXPORT(widen);
HWY_EXPORT(narrow);
HWY_EXPORT(divide);

}  // namespace

namespace kernels {

void combine(ReduceOp op, DataType accumulator, const void* left, const void* right, void* out,
             std::size_t count) {
  HWY_DYNAMIC_DISPATCH(combine)(op, accumulator, left, right, out, count);
}

void widen(DataType type, const void* elements, void* accumulators, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(widen)(type, elements, accumulators, count);
}

void narrow(DataType type, const void* accumulators, void* elements, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(narrow)(type, accumulators, elements, count);
}

void divide(DataType accumulator, void* values, std::int64_t divisor, std::size_t count) {
  HWY_DYNAMIC_DISPATCH(divide)(accumulator, values, divisor, count);
}

}  // namespace kernels
}  // namespace lockstep::comm
#endif  // HWY_ONCE

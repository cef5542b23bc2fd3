#pragma once

#include <cstddef>
#include <cstdint>
#include <ranges>
#include <string_view>
#include <type_traits>

#include "lockstep/base/data_type.h"

namespace lockstep::comm {

/// Memory of the caller that a collective writes: `count` elements of one type, in a row.
/// The name is for messages; it need only live as long as the call.
struct Buffer {
  void* data = nullptr;
  std::int64_t count = 0;
  DataType type = DataType::F32;
  std::string_view name{};
};

/// Memory of the caller that a collective only reads.
struct ConstBuffer {
  const void* data = nullptr;
  std::int64_t count = 0;
  DataType type = DataType::F32;
  std::string_view name{};

  ConstBuffer() = default;
  ConstBuffer(const void* data_, std::int64_t count_, DataType type_, std::string_view name_ = {})
      : data(data_), count(count_), type(type_), name(name_) {}
  // A buffer that may be written may be read.
  ConstBuffer(const Buffer& buffer)  // NOLINT(google-explicit-constructor)
      : data(buffer.data), count(buffer.count), type(buffer.type), name(buffer.name) {}
};

inline std::size_t bytes_of(const ConstBuffer& buffer) noexcept {
  return static_cast<std::size_t>(buffer.count) * size_of(buffer.type);
}

/// The elements of a vector, an array or a span.
template <std::ranges::contiguous_range Range>
auto buffer_of(Range&& values, std::string_view name = {}) {
  using Element = std::remove_reference_t<std::ranges::range_reference_t<Range>>;
  constexpr auto kType = kTypeOf<std::remove_const_t<Element>>;
  const auto count = static_cast<std::int64_t>(std::ranges::size(values));
  if constexpr (std::is_const_v<Element>) {
    return ConstBuffer(std::ranges::data(values), count, kType, name);
  } else {
    return Buffer{std::ranges::data(values), count, kType, name};
  }
}

}  // namespace lockstep::comm

#include "lockstep/weights/row_major.h"

#include <cstring>

namespace lockstep::weights {
namespace {

std::int64_t count(const std::vector<std::int64_t>& shape) {
  std::int64_t product = 1;
  for (const auto extent : shape) product *= extent;
  return product;
}

/// The same elements with fewer extents: those that one stride walks through become one. The 3 × 3
/// of a channels-last kernel are 9, and rows of 9 cost a third of what rows of 3 do.
Geometry merged(const Geometry& geometry) {
  Geometry result{geometry.offset, {}, {}};
  for (std::size_t axis = 0; axis < geometry.shape.size(); ++axis) {
    const auto extent = geometry.shape[axis];
    const auto stride = geometry.strides[axis];
    if (extent == 1) continue;
    if (!result.shape.empty() && result.strides.back() == extent * stride) {
      result.shape.back() *= extent;
      result.strides.back() = stride;
    } else {
      result.shape.push_back(extent);
      result.strides.push_back(stride);
    }
  }
  if (result.shape.empty()) return {geometry.offset, {1}, {1}};
  return result;
}

/// Walks the rows, which the last extent makes, as an odometer counts.
template <typename Element>
void gather(const std::byte* storage, const Geometry& geometry, std::byte* out) {
  const auto& [offset, shape, strides] = geometry;
  const auto outer = shape.size() - 1;
  const auto row = shape[outer];
  const auto step = strides[outer] * static_cast<std::int64_t>(sizeof(Element));
  const auto rows = count(shape) / row;
  std::vector<std::int64_t> index(outer, 0);
  auto position = offset;
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto* from = storage + position * static_cast<std::int64_t>(sizeof(Element));
    for (std::int64_t column = 0; column < row; ++column) {
      std::memcpy(out, from + column * step, sizeof(Element));
      out += sizeof(Element);
    }
    for (auto axis = outer; axis-- > 0;) {
      position += strides[axis];
      if (++index[axis] < shape[axis]) break;
      position -= strides[axis] * shape[axis];
      index[axis] = 0;
    }
  }
}

}  // namespace

bool fits(const Geometry& geometry, std::int64_t elements) noexcept {
  const auto& [offset, shape, strides] = geometry;
  if (offset < 0 || offset > elements || shape.size() != strides.size()) return false;
  bool is_empty = false;
  std::int64_t last = offset;
  std::int64_t total = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] < 0 || strides[i] < 0) return false;
    is_empty = is_empty || shape[i] == 0;
    std::int64_t reach = 0;
    if (shape[i] > 0 && (__builtin_mul_overflow(shape[i] - 1, strides[i], &reach) ||
                         __builtin_add_overflow(last, reach, &last) ||
                         __builtin_mul_overflow(total, shape[i], &total))) {
      return false;
    }
  }
  return is_empty || last < elements;
}

bool is_row_major(const Geometry& geometry) noexcept {
  std::int64_t expected = 1;
  for (auto axis = geometry.shape.size(); axis-- > 0;) {
    const auto extent = geometry.shape[axis];
    if (extent == 0) return true;
    if (extent != 1 && geometry.strides[axis] != expected) return false;
    expected *= extent;
  }
  return true;
}

void to_row_major(std::span<const std::byte> storage, std::size_t element_bytes,
                  const Geometry& geometry, std::byte* out) {
  const auto elements = static_cast<std::size_t>(count(geometry.shape));
  if (elements == 0) return;
  if (is_row_major(geometry)) {
    const auto first = static_cast<std::size_t>(geometry.offset) * element_bytes;
    std::memcpy(out, storage.data() + first, elements * element_bytes);
    return;
  }
  const auto walk = merged(geometry);
  switch (element_bytes) {
    case 1:
      gather<std::uint8_t>(storage.data(), walk, out);
      break;
    case 2:
      gather<std::uint16_t>(storage.data(), walk, out);
      break;
    case 4:
      gather<std::uint32_t>(storage.data(), walk, out);
      break;
    default:
      gather<std::uint64_t>(storage.data(), walk, out);
  }
}

std::vector<std::byte> to_row_major(std::span<const std::byte> storage, std::size_t element_bytes,
                                    const Geometry& geometry) {
  std::vector<std::byte> elements(static_cast<std::size_t>(count(geometry.shape)) * element_bytes);
  to_row_major(storage, element_bytes, geometry, elements.data());
  return elements;
}

}  // namespace lockstep::weights

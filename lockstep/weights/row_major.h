#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/base/export.h"

namespace lockstep::weights {

/// Which elements of a storage a tensor consists of, counted in elements.
struct Geometry {
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
  auto operator<=>(const Geometry&) const = default;
};

/// Whether every element lies within a storage of so many. Extents, strides and the offset may be
/// anything; negative ones never fit.
bool fits(const Geometry& geometry, std::int64_t elements) noexcept;

/// Whether the elements stand one after the other in row-major order.
bool is_row_major(const Geometry& geometry) noexcept;

/// The elements in row-major order, gathered from a storage that they fit into. Elements have 1, 2,
/// 4 or 8 bytes.
LOCKSTEP_PRIVATE_API void to_row_major(std::span<const std::byte> storage,
                                       std::size_t element_bytes, const Geometry& geometry,
                                       std::byte* out);
/// The same in memory of its own.
LOCKSTEP_PRIVATE_API std::vector<std::byte> to_row_major(std::span<const std::byte> storage,
                                                         std::size_t element_bytes,
                                                         const Geometry& geometry);

}  // namespace lockstep::weights

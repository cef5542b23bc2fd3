#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/data_type.h"
#include "lockstep/base/export.h"

namespace lockstep::data {

/// How much of a field's shape each sample fills.
enum class FieldKind : std::uint8_t {
  Fixed,         ///< all of it
  Varying,       ///< the first `length` entries of the first extent; the rest is zero
  AnySizeImage,  ///< shape {0, 0, channels}: 8-bit pictures, each with its own height and width
};

LOCKSTEP_API std::string_view name_of(FieldKind kind) noexcept;

/// One named part of every sample of a set: "image", "label", "tokens".
struct Field {
  std::string name;
  DataType type = DataType::F32;
  std::vector<std::int64_t> shape{};  ///< of one sample; {} is a single number
  FieldKind kind = FieldKind::Fixed;

  bool operator==(const Field&) const = default;
};

/// Elements of one sample: the product of the shape, 0 for pictures of any size.
LOCKSTEP_API std::int64_t count_of(const Field& field) noexcept;
LOCKSTEP_API std::size_t bytes_of(const Field& field) noexcept;

/// "image u8 [32, 32, 3]", "tokens i32 [up to 128]"
LOCKSTEP_API std::string describe(const Field& field);

/// Throws `Options` where fields cannot be meant: no name, a name twice, an extent below 1, a
/// varying field without an extent, pictures that are not 8-bit. `where` begins the message.
LOCKSTEP_API void check_fields(std::string_view where, const std::vector<Field>& fields);

/// The position of a field. Throws `Options`, with the names that there are.
LOCKSTEP_API std::size_t position_of(std::string_view name, const std::vector<Field>& fields);

}  // namespace lockstep::data

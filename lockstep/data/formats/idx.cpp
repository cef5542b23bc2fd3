#include "lockstep/data/formats/idx.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <array>

namespace lockstep::data {
namespace {

constexpr std::size_t kMagicBytes = 4;
constexpr std::size_t kMaxIdxDimensions = 8;
/// More than any file holds, and small enough that products do not overflow.
constexpr std::int64_t kMostElements = std::int64_t{1} << 40;
constexpr std::uint8_t kUnsignedByteCode = 0x08;

std::string_view name_of_element(std::uint8_t code) {
  switch (code) {
    case 0x09:
      return "signed bytes";
    case 0x0b:
      return "16-bit integers";
    case 0x0c:
      return "32-bit integers";
    case 0x0d:
      return "32-bit floats";
    case 0x0e:
      return "64-bit floats";
    default:
      return "an unknown type";
  }
}

std::int64_t read_extent(const std::uint8_t* at) {
  return (std::int64_t{at[0]} << 24) | (std::int64_t{at[1]} << 16) | (std::int64_t{at[2]} << 8) |
         std::int64_t{at[3]};
}

/// Checks the first four bytes; returns how many dimensions follow.
std::size_t read_magic(Bytes file, std::string_view where) {
  if (file.size() < kMagicBytes || file[0] != 0 || file[1] != 0) {
    throw damaged(where, 0, "an IDX file (00 00 08 and the number of dimensions)",
                  to_hex(file, kMagicBytes));
  }
  if (file[2] != kUnsignedByteCode) {
    throw damaged(where, 2, "elements of type 08 (unsigned bytes)",
                  fmt::format("{:02x} ({})", file[2], name_of_element(file[2])));
  }
  if (file[3] < 1 || file[3] > kMaxIdxDimensions) {
    throw damaged(where, 3, fmt::format("1 to {} dimensions", kMaxIdxDimensions),
                  fmt::format("{}", file[3]));
  }
  return file[3];
}

}  // namespace

IdxArray read_idx(Bytes file, std::string_view where) {
  const auto dimensions = read_magic(file, where);
  IdxArray array;
  array.offset = kMagicBytes + 4 * dimensions;
  if (file.size() < array.offset) {
    throw damaged(where, kMagicBytes, fmt::format("{} extents of 4 bytes each", dimensions),
                  fmt::format("the end of the file at byte {}", file.size()));
  }
  std::int64_t count = 1;
  for (std::size_t i = 0; i < dimensions; ++i) {
    const auto position = kMagicBytes + 4 * i;
    const auto extent = read_extent(file.data() + position);
    if (extent < 1 || extent > kMostElements / count) {
      throw damaged(where, position, "an extent of at least 1 and at most 2^40 elements in all",
                    fmt::format("{}", extent));
    }
    count *= extent;
    array.shape.push_back(extent);
  }
  array.elements = file.subspan(array.offset);
  if (array.elements.size() != static_cast<std::size_t>(count)) {
    throw damaged(where, array.offset,
                  fmt::format("{} bytes (the shape is [{}])", count, fmt::join(array.shape, ", ")),
                  fmt::format("{}", array.elements.size()));
  }
  return array;
}

}  // namespace lockstep::data

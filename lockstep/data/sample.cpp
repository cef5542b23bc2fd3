#include "lockstep/data/sample.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

/// Pictures beyond this are damage, not data: a side of 2^16 is more than JPEG can hold.
constexpr std::int64_t kLongestSide = 1 << 16;

}  // namespace

Sample::Sample(const std::vector<Field>& fields) : fields_(fields), parts_(fields.size()) {
  check_fields("data: sample", fields);
}

std::span<std::uint8_t> Sample::write_image(std::size_t field, ImageSize size) {
  check(field, DataType::U8, FieldKind::AnySizeImage);
  if (size.height < 1 || size.width < 1 || size.height > kLongestSide ||
      size.width > kLongestSide) {
    throw Error(ErrorKind::Data,
                fmt::format("data: field '{}': expected a picture of 1 to {} pixels on a side, "
                            "found {} x {}",
                            fields_[field].name, kLongestSide, size.height, size.width));
  }
  const auto count = size.height * size.width * fields_[field].shape[2];
  auto* const pixels = memory(field, DataType::U8, FieldKind::AnySizeImage, count);
  parts_[field].size = size;
  return {static_cast<std::uint8_t*>(pixels), static_cast<std::size_t>(count)};
}

void Sample::refer(std::size_t field, const void* data) {
  check(field, fields_[field].type, FieldKind::Fixed);
  set_data(field, data);
}

void Sample::refer_varying(std::size_t field, const void* data, std::int64_t length) {
  check_length(field, length);
  set_data(field, data);
  parts_[field].length = length;
}

void Sample::refer_image(std::size_t field, const std::uint8_t* pixels, ImageSize size) {
  check(field, DataType::U8, FieldKind::AnySizeImage);
  set_data(field, pixels);
  parts_[field].size = size;
}

void Sample::clear() noexcept {
  for (auto& part : parts_) {
    part.is_written = false;
    part.length = 0;
    part.size = {};
  }
}

void Sample::check_complete() const {
  for (std::size_t field = 0; field < fields_.size(); ++field) {
    if (parts_[field].is_written) continue;
    throw Error(ErrorKind::Options,
                fmt::format("expected a value for field '{}', but Dataset::sample wrote none",
                            fields_[field].name));
  }
}

ImageView Sample::image(std::size_t field) const noexcept {
  const auto& shape = fields_[field].shape;
  const auto& part = parts_[field];
  const auto size =
      fields_[field].kind == FieldKind::AnySizeImage ? part.size : ImageSize{shape[0], shape[1]};
  return dense_view(reinterpret_cast<const std::uint8_t*>(part.data), size, shape[2]);
}

std::int64_t Sample::entry_count(std::size_t field) const {
  const auto& declared = fields_[field];
  return declared.shape.empty() ? 1 : count_of(declared) / declared.shape[0];
}

void* Sample::memory(std::size_t field, DataType type, FieldKind kind, std::int64_t count) {
  check(field, type, kind);
  auto& own = parts_[field].own;
  const auto bytes = static_cast<std::size_t>(count) * size_of(type);
  if (own.size() < bytes) own.resize(bytes);
  set_data(field, own.data());
  return own.data();
}

void Sample::set_data(std::size_t field, const void* data) noexcept {
  parts_[field].is_written = true;
  parts_[field].data = static_cast<const std::byte*>(data);
}

void Sample::check(std::size_t field, DataType type, FieldKind kind) const {
  const auto& declared = fields_[field];
  if (declared.type == type && declared.kind == kind) return;
  throw Error(ErrorKind::Options,
              fmt::format("data: field '{}': declared as {} {}, written as {} {}", declared.name,
                          name_of(declared.kind), lockstep::name_of(declared.type), name_of(kind),
                          lockstep::name_of(type)));
}

void Sample::check_length(std::size_t field, std::int64_t length) const {
  const auto& declared = fields_[field];
  if (declared.kind != FieldKind::Varying) check(field, declared.type, FieldKind::Varying);
  if (length >= 0 && length <= declared.shape[0]) return;
  throw Error(ErrorKind::Options,
              fmt::format("data: field '{}': expected at most {} entries, found {}", declared.name,
                          declared.shape[0], length));
}

}  // namespace lockstep::data

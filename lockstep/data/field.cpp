#include "lockstep/data/field.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

/// No field of one sample is larger: what exceeds it is a mistake, and products stay in range.
constexpr std::int64_t kMostElements = std::int64_t{1} << 40;

bool fits(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const auto extent : shape) {
    if (extent < 1 || extent > kMostElements / count) return false;
    count *= extent;
  }
  return true;
}

bool is_sound(const Field& field) {
  switch (field.kind) {
    case FieldKind::Fixed:
      return fits(field.shape);
    case FieldKind::Varying:
      return !field.shape.empty() && fits(field.shape);
    case FieldKind::AnySizeImage:
      return field.type == DataType::U8 && field.shape.size() == 3 && field.shape[0] == 0 &&
             field.shape[1] == 0 && field.shape[2] >= 1 && field.shape[2] <= 4;
  }
  return false;
}

const char* expectation(FieldKind kind) {
  switch (kind) {
    case FieldKind::Fixed:
      return "extents of at least 1";
    case FieldKind::Varying:
      return "a first extent, which is the most entries, and extents of at least 1";
    case FieldKind::AnySizeImage:
      return "u8 of shape [0, 0, channels] with 1 to 4 channels";
  }
  return "?";
}

}  // namespace

std::string_view name_of(FieldKind kind) noexcept {
  switch (kind) {
    case FieldKind::Fixed:
      return "fixed";
    case FieldKind::Varying:
      return "varying";
    case FieldKind::AnySizeImage:
      return "any-size-image";
  }
  return "?";
}

std::int64_t count_of(const Field& field) noexcept {
  std::int64_t count = 1;
  for (const auto extent : field.shape) count *= extent;
  return count;
}

std::size_t bytes_of(const Field& field) noexcept {
  return static_cast<std::size_t>(count_of(field)) * size_of(field.type);
}

std::string describe(const Field& field) {
  if (field.kind == FieldKind::AnySizeImage) {
    return fmt::format("{} {} [any, any, {}]", field.name, lockstep::name_of(field.type),
                       field.shape.empty() ? 0 : field.shape.back());
  }
  return fmt::format("{} {} [{}{}]", field.name, lockstep::name_of(field.type),
                     field.kind == FieldKind::Varying ? "up to " : "",
                     fmt::join(field.shape, ", "));
}

void check_fields(std::string_view where, const std::vector<Field>& fields) {
  if (fields.empty()) {
    throw Error(ErrorKind::Options,
                fmt::format("{}: expected at least one field, found none", where));
  }
  for (auto field = fields.begin(); field != fields.end(); ++field) {
    const auto is_same = [&](const Field& other) { return other.name == field->name; };
    if (field->name.empty() || std::any_of(fields.begin(), field, is_same)) {
      throw Error(ErrorKind::Options,
                  fmt::format("{}: expected fields with names of their own, found '{}' {}", where,
                              field->name, field->name.empty() ? "as a name" : "twice"));
    }
    if (!is_sound(*field)) {
      throw Error(ErrorKind::Options,
                  fmt::format("{}: field '{}' ({}): expected {}, found {}", where, field->name,
                              name_of(field->kind), expectation(field->kind), describe(*field)));
    }
  }
}

std::size_t position_of(std::string_view name, const std::vector<Field>& fields) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].name == name) return i;
    names.emplace_back(fields[i].name);
  }
  throw Error(ErrorKind::Options, fmt::format("data: expected one of the fields {}, found '{}'",
                                              fmt::join(names, ", "), name));
}

}  // namespace lockstep::data

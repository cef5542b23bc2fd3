#include "lockstep/gpu/pictures/set_layout.h"

#include <fmt/format.h>

#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/gpu/pictures/picture_pass.h"

namespace lockstep::gpu {
namespace {

constexpr auto kHint = "leave --data-on-device out";

void check_kind(const data::Field& field) {
  if (field.kind == data::FieldKind::Fixed) return;
  throw Error(ErrorKind::Options,
              fmt::format("data on the device: field '{}': expected values of one size, found {}",
                          field.name, data::describe(field)),
              kHint);
}

/// Pictures begin where 16 bytes can be read at once.
std::int64_t stride_of(const data::Field& field, std::int64_t bytes) {
  const bool is_picture = field.type == DataType::U8 && field.shape.size() == 3;
  return is_picture ? aligned_stride(bytes) : bytes;
}

std::string mebibytes(double bytes) {
  return fmt::format("{:.1f} MiB", bytes / 0x1p20);
}

[[noreturn]] void refuse(double found, std::int64_t samples, std::int64_t free_bytes) {
  throw Error(ErrorKind::Options,
              fmt::format("data on the device: expected a set of at most {}, which is what the GPU "
                          "has free, found {} samples that take {}",
                          mebibytes(static_cast<double>(free_bytes)), samples, mebibytes(found)),
              kHint);
}

}  // namespace

SetLayout lay_out_set(const std::vector<data::Field>& fields, std::int64_t samples,
                      std::int64_t free_bytes) {
  SetLayout layout{.samples = samples, .bytes = 0, .fields = {}};
  double wanted = 0;  // no product of it overflows
  for (const auto& field : fields) {
    check_kind(field);
    const auto bytes = static_cast<std::int64_t>(data::bytes_of(field));
    const auto stride = stride_of(field, bytes);
    layout.fields.push_back({.offset = 0, .bytes = bytes, .stride = stride});
    wanted += static_cast<double>(stride) * static_cast<double>(samples) + 16;
  }
  if (wanted > static_cast<double>(free_bytes)) refuse(wanted, samples, free_bytes);
  for (auto& field : layout.fields) {
    field.offset = layout.bytes;
    layout.bytes += aligned_stride(field.stride * samples);
  }
  return layout;
}

}  // namespace lockstep::gpu

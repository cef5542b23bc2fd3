#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/data/field.h"
#include "lockstep/data/image.h"

namespace lockstep::data {

/// One sample on its way from a data set to a batch: for each field either a reference to memory of
/// the data set, or bytes that the data set wrote into memory of this object.
///
/// A loader's worker keeps one and uses it again for each sample, so that nothing is allocated
/// while it runs. One thread at a time.
///
/// Errors: `Options` where a data set writes another type or more than it declared.
class LOCKSTEP_API Sample {
 public:
  explicit Sample(const std::vector<Field>& fields);

  /// Forgets what the sample before this one had.
  void clear() noexcept;

  /// Memory to write a field of fixed shape into, all of it: it holds what was last written there.
  template <typename T>
  std::span<T> write(std::size_t field) {
    const auto count = count_of(fields_[field]);
    return {static_cast<T*>(memory(field, kTypeOf<T>, FieldKind::Fixed, count)),
            static_cast<std::size_t>(count)};
  }

  /// A field that is a single number.
  template <typename T>
  void set(std::size_t field, T value) {
    write<T>(field)[0] = value;
  }

  /// Memory for the first `length` entries of a varying field.
  template <typename T>
  std::span<T> write_varying(std::size_t field, std::int64_t length) {
    check_length(field, length);
    const auto count = length * entry_count(field);
    auto* const memory_of_field = memory(field, kTypeOf<T>, FieldKind::Varying, count);
    parts_[field].length = length;
    return {static_cast<T*>(memory_of_field), static_cast<std::size_t>(count)};
  }

  /// Memory for the pixels of a picture of its own size, channels-last.
  std::span<std::uint8_t> write_image(std::size_t field, ImageSize size);

  /// The field's bytes stand at `data`, and stay there as long as the data set lives.
  void refer(std::size_t field, const void* data);
  void refer_varying(std::size_t field, const void* data, std::int64_t length);
  void refer_image(std::size_t field, const std::uint8_t* pixels, ImageSize size);

  const std::vector<Field>& fields() const noexcept { return fields_; }
  /// Throws `Options` where a field was neither written nor referred to since `clear`.
  void check_complete() const;
  const std::byte* data(std::size_t field) const noexcept { return parts_[field].data; }
  /// Entries of a varying field.
  std::int64_t length(std::size_t field) const noexcept { return parts_[field].length; }
  /// A field as a picture; its shape is {height, width, channels}.
  ImageView image(std::size_t field) const noexcept;

 private:
  struct Part {
    bool is_written = false;
    const std::byte* data = nullptr;
    std::int64_t length = 0;
    ImageSize size;
    std::vector<std::byte> own;  ///< what was written; grows to the largest and stays
  };

  std::int64_t entry_count(std::size_t field) const;
  void* memory(std::size_t field, DataType type, FieldKind kind, std::int64_t count);
  void set_data(std::size_t field, const void* data) noexcept;
  void check(std::size_t field, DataType type, FieldKind kind) const;
  void check_length(std::size_t field, std::int64_t length) const;

  std::vector<Field> fields_;
  std::vector<Part> parts_;
};

}  // namespace lockstep::data

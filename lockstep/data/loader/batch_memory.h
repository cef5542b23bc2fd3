#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "lockstep/data/field.h"
#include "lockstep/data/loader/allocate_memory.h"

namespace lockstep::data {

/// Room for the fields of up to `samples` samples: each field's values one after another, and the
/// lengths of those that vary. Allocated once; every field begins at a cache line.
class BatchMemory {
 public:
  BatchMemory(const std::vector<Field>& fields, std::int64_t samples,
              const AllocateMemory& allocate);

  /// The value of one field of one sample.
  std::byte* value(std::size_t field, std::int64_t sample) const noexcept {
    return columns_[field].data + static_cast<std::size_t>(sample) * columns_[field].bytes;
  }
  std::size_t value_bytes(std::size_t field) const noexcept { return columns_[field].bytes; }
  std::int64_t* lengths(std::size_t field) const noexcept { return columns_[field].lengths; }

 private:
  struct Column {
    std::byte* data = nullptr;
    std::size_t bytes = 0;            ///< of one sample
    std::int64_t* lengths = nullptr;  ///< of a varying field
  };

  std::shared_ptr<std::byte> memory_;
  std::vector<Column> columns_;
};

}  // namespace lockstep::data

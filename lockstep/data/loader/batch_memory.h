#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/data/field.h"

namespace lockstep::data {

/// Where the memory of batches comes from: given a number of bytes, memory that begins at a page or
/// at least at a cache line. Hand one in to have it pinned for a GPU.
using AllocateMemory = std::function<std::shared_ptr<std::byte>(std::size_t)>;

/// Plain memory, in huge pages where the machine has them. Throws `Unavailable` where there is
/// none.
std::shared_ptr<std::byte> allocate_pages(std::size_t bytes);

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

#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/data/dataset.h"
#include "lockstep/gpu/memory.h"
#include "lockstep/gpu/pictures/pixels.h"
#include "lockstep/gpu/pictures/set_layout.h"

namespace lockstep::gpu {

/// A whole data set in the memory of the current GPU. Read by any number of streams.
///
/// Errors: those of `lay_out_set`, and what the set's samples throw.
class DeviceSet {
 public:
  /// Copies the set, which may take this much memory, and waits until it is there.
  DeviceSet(const data::Dataset& set, std::int64_t most_bytes);

  std::int64_t samples() const noexcept { return layout_.samples; }
  const std::vector<data::Field>& fields() const noexcept { return fields_; }
  const std::byte* values(std::size_t field) const noexcept {
    return memory_.data() + layout_.fields[field].offset;
  }

  /// Writes the values that a field has for some samples, one after the other. `samples` are
  /// numbers in the set, in the GPU's memory.
  void gather(std::size_t field, const std::int64_t* samples, std::int64_t count, void* out,
              Stream stream) const;

 private:
  void copy_field(const data::Dataset& set, std::size_t field);

  std::vector<data::Field> fields_;
  SetLayout layout_;
  DeviceMemory memory_;
};

}  // namespace lockstep::gpu

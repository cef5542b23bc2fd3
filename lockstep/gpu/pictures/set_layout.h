#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/data/field.h"

namespace lockstep::gpu {

/// Where the values of a field lie in a GPU's memory.
struct FieldPlace {
  std::int64_t offset = 0;
  std::int64_t bytes = 0;   ///< of one sample
  std::int64_t stride = 0;  ///< from one sample to the next
};

/// A whole data set in one piece of a GPU's memory: field by field, sample by sample.
struct SetLayout {
  std::int64_t samples = 0;
  std::int64_t bytes = 0;
  std::vector<FieldPlace> fields;
};

/// Lays out a set. Throws `Options` for fields whose values differ in size, and for a set that is
/// larger than the memory that is free.
SetLayout lay_out_set(const std::vector<data::Field>& fields, std::int64_t samples,
                      std::int64_t free_bytes);

}  // namespace lockstep::gpu

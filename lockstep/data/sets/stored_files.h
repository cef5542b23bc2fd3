#pragma once

#include <cstdint>
#include <string>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

/// What a set offers besides samples where each picture is a file of its own: the file itself. Its
/// fields are "image" and "label".
class StoredFiles {
 public:
  virtual ~StoredFiles() = default;
  virtual std::string stored_bytes(std::int64_t index) const = 0;
  virtual std::int64_t label(std::int64_t index) const = 0;
};

/// The set as one of stored files. Throws `Options` where it is none.
const StoredFiles* stored_files(const Dataset& set);

}  // namespace lockstep::data

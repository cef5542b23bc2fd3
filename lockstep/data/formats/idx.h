#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "lockstep/base/data_type.h"
#include "lockstep/data/formats/bytes.h"

namespace lockstep::data {

/// An array as MNIST's files hold it: a header that tells the shape, then the elements.
struct IdxArray {
  DataType type = DataType::U8;
  std::vector<std::int64_t> shape;
  std::size_t offset = 0;  ///< of the first element in the file
  Bytes elements;          ///< a part of what was read
};

/// Reads the header and checks that the file ends where its last element does. Elements of 8 bits
/// are the only ones in use, and the only ones read.
///
/// Errors: `Data`, which `where` begins.
IdxArray read_idx(Bytes file, std::string_view where);

}  // namespace lockstep::data

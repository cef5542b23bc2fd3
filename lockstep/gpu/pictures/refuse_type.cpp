#include "lockstep/gpu/pictures/refuse_type.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::gpu {

void refuse_type(const char* where, const char* expected, DataType found) {
  throw Error(ErrorKind::Options, fmt::format("{}: expected an output of {}, found {}", where,
                                              expected, name_of(found)));
}

}  // namespace lockstep::gpu

#pragma once

#include "lockstep/base/data_type.h"

namespace lockstep::gpu {

/// Throws `Options`: an output of another type than those `expected`. Messages are no work for the
/// compiler of kernels.
[[noreturn]] void refuse_type(const char* where, const char* expected, DataType found);

}  // namespace lockstep::gpu

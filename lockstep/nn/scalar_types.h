#pragma once

#include <c10/core/ScalarType.h>

#include "lockstep/base/data_type.h"

namespace lockstep::nn {

/// libtorch's name for a type of ours, and back. Errors: `Bug` for one that we have none for.
at::ScalarType scalar_type_of(DataType type);
DataType data_type_of(at::ScalarType type);

}  // namespace lockstep::nn

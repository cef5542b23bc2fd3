#pragma once

#include "lockstep/base/export.h"

namespace lockstep {

/// The hardware threads that this process may run on; at least 1.
LOCKSTEP_PRIVATE_API int owned_cores() noexcept;

}  // namespace lockstep

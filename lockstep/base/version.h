#pragma once

#include <string_view>

#include "lockstep/base/export.h"

namespace lockstep {

/// "0.1.0"
LOCKSTEP_API std::string_view version() noexcept;

/// The commit that was built, with "+" if the tree had uncommitted changes. "unrecorded" in debug
/// builds, so that a commit does not link every program again, and "unknown" outside a repository.
LOCKSTEP_API std::string_view commit() noexcept;

/// The compiler and the flags that matter: "GNU 12.2.0, Release (-O2 -DNDEBUG)".
LOCKSTEP_API std::string_view build_description() noexcept;

/// The sanitizers of this build; empty for most.
LOCKSTEP_API std::string_view sanitizers() noexcept;

/// The libtorch that it was built against; empty where it was built without.
LOCKSTEP_API std::string_view torch_version() noexcept;

/// Whether this build can use NVIDIA GPUs.
LOCKSTEP_API bool built_with_cuda() noexcept;

}  // namespace lockstep

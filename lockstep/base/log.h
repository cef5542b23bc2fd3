#pragma once

#include <string_view>

#include "lockstep/base/export.h"

namespace lockstep {

/// Writes `lockstep: warning: …` to standard error, as one write, so that lines of several
/// processes do not mix. For what a user must hear of while a program goes on.
LOCKSTEP_PRIVATE_API void log_warning(std::string_view message) noexcept;

/// Writes a line to standard error as it is, as one write.
void log_line(std::string_view line) noexcept;

}  // namespace lockstep

#pragma once

#include <string_view>

namespace lockstep {

/// Writes `lockstep: warning: …` to standard error, as one write, so that lines of several
/// processes do not mix. For what a user must hear of while a program goes on.
void log_warning(std::string_view message) noexcept;

}  // namespace lockstep

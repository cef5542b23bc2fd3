#pragma once

#include "lockstep/base/export.h"
#include "lockstep/comm/world.h"
#include "lockstep/ui/progress_bar.h"

namespace lockstep::ui {

/// What standard output leads to.
enum class OutputKind : std::uint8_t { Terminal, Pipe, Other };

LOCKSTEP_API OutputKind kind_of_output(int fd);

/// Silent on instances other than 0. Live on a terminal, and in the pipe that lockstep's launcher
/// reads, which keeps bars and lines apart itself. Lines elsewhere.
LOCKSTEP_API BarStyle bar_style(const World& world, OutputKind output) noexcept;

/// Bars on this process's standard output. A write that fails is not told: the lines that matter go
/// the same way, and whoever writes them checks.
LOCKSTEP_API BarOutput standard_output(const World& world);

/// Writes to standard error, at once.
LOCKSTEP_API Writer standard_error();

}  // namespace lockstep::ui

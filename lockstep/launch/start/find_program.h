#pragma once

#include <string>

#include "lockstep/topology/environment.h"

namespace lockstep::launch {

/// The file that a command's first word names, looked for as a shell does: along PATH, or as it is
/// where it holds a slash.
///
/// Throws `NotFound` or `NotExecutable` (a folder, no right, a script whose interpreter is
/// missing).
std::string find_program(const std::string& name, const topology::Environment& environment);

/// Whether `find_program` would find it.
bool has_program(const std::string& name, const topology::Environment& environment);

}  // namespace lockstep::launch

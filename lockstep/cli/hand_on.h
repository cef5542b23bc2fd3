#pragma once

#include <string>
#include <vector>

#include "lockstep/topology/environment.h"

namespace lockstep::cli {

/// Replaces this process with another program of lockstep, in the folder of the running program.
///
/// `lockstep` itself links little, so that it starts in milliseconds. What needs decoders, archives
/// or torch is a program of its own. Does not return. Throws `Unavailable` if the program is
/// missing, `Io` if it cannot be executed.
[[noreturn]] void hand_on(const char* program, const std::vector<std::string>& arguments,
                          const topology::Environment& environment);

}  // namespace lockstep::cli

#pragma once

#include <string>
#include <vector>

#include "lockstep/topology/environment.h"

namespace lockstep::cli {

/// The path of another program of lockstep, which lies beside this one. Throws `Unavailable` where
/// it is not there.
std::string program_beside(const char* program);

/// Becomes another program of lockstep, which lies beside this one.
///
/// `lockstep` itself links little, so that it starts in milliseconds; what needs decoders, archives
/// or torch is a program of its own. Does not return; throws `Unavailable` where the program is not
/// there.
[[noreturn]] void hand_on(const char* program, const std::vector<std::string>& arguments,
                          const topology::Environment& environment);

}  // namespace lockstep::cli

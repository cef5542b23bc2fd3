#pragma once

#include <string>

namespace lockstep::cli {

/// The file of the running program.
std::string own_program();

/// The path of another program of lockstep, in the folder of the running program.
/// Throws `Unavailable` with the hint if it is missing.
std::string program_beside(const std::string& program,
                           const std::string& hint = "build or install lockstep as a whole");

}  // namespace lockstep::cli

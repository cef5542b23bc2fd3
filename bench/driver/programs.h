#pragma once

#include <string>
#include <vector>

namespace lockstep::bench {

/// Returns the path of the launcher, `lockstep`, in the folder of this program.
/// Throws `Unavailable` if it is missing.
std::string lockstep_program();

/// Returns the path of a file in `libexec/lockstep`: a peer, or a library that this program loads
/// on demand. The folder is beside `bin`, both in a build and in an installed tree. The file may be
/// missing.
std::string libexec_file(const std::string& name);

/// Returns `mpirun` and its options. The caller appends the number of processes and a program.
std::vector<std::string> mpirun_launcher();

/// Returns `words` followed by `more`.
std::vector<std::string> joined(std::vector<std::string> words,
                                const std::vector<std::string>& more);

}  // namespace lockstep::bench

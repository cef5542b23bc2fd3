#pragma once

#include <string>
#include <vector>

namespace lockstep::bench {

/// The file of `lockstep`, the launcher, which lies beside this program.
/// Throws `Unavailable` if it is missing.
std::string lockstep_program();

/// A file of ours in `libexec/lockstep`: a peer, or a part of this program that is loaded on
/// demand. The folder lies beside `bin`, in a build as in an installed tree. The file may be
/// missing.
std::string libexec_file(const std::string& name);

/// `mpirun …`, to be followed by the number of processes and a program.
std::vector<std::string> mpirun_launcher();

/// `words` followed by `more`.
std::vector<std::string> joined(std::vector<std::string> words,
                                const std::vector<std::string>& more);

}  // namespace lockstep::bench

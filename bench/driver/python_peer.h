#pragma once

#include <string>
#include <string_view>

#include "lockstep/topology/environment.h"

namespace lockstep::bench {

/// A script of ours that makes PyTorch do the work that a benchmark measures.
struct PythonPeer {
  std::string python;  ///< the interpreter
  std::string script;
};

/// Finds the script, and a Python that has torch and torchvision: the first on the PATH, or the
/// system's own. `where` begins messages.
///
/// Throws `Unavailable` if one of them is missing. The hint names what to install.
PythonPeer find_python_peer(std::string_view where, const char* script,
                            const topology::Environment& environment);

}  // namespace lockstep::bench

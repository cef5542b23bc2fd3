#pragma once

#include <string>
#include <string_view>

#include "lockstep/topology/environment.h"

namespace lockstep::bench {

/// A Python script that does the work of a benchmark with PyTorch.
struct PythonPeer {
  std::string python;  ///< the interpreter
  std::string script;
};

/// Finds the script, and a Python interpreter with torch and torchvision: the first one on the
/// PATH, or the interpreter of the system. `where` is the prefix of error messages.
///
/// Throws `Unavailable` if one of them is missing. The hint names the packages to install.
PythonPeer find_python_peer(std::string_view where, const char* script,
                            const topology::Environment& environment);

}  // namespace lockstep::bench

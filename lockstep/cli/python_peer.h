#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

#include "lockstep/data/dataset.h"
#include "lockstep/topology/environment.h"

namespace lockstep::cli {

/// A script of ours that has torch do what a benchmark measures, and who runs it.
struct PythonPeer {
  std::string python;
  std::string script;
};

/// Finds the script, and a Python that has torch and torchvision: the first on the PATH, or the
/// system's own. `where` begins messages.
///
/// Throws `Unavailable` where one of them is not here, with what to install.
PythonPeer find_python_peer(std::string_view where, const char* script,
                            const topology::Environment& environment);

/// Writes the values of a field of the first samples one after the other, for `numpy.fromfile`.
/// Throws `Io`.
void write_values(const data::Dataset& set, std::size_t field, std::int64_t samples,
                  const std::filesystem::path& path);

}  // namespace lockstep::cli

#pragma once

#include <optional>

#include "bench/driver/python_peer.h"
#include "bench/driver/report.h"
#include "lockstep/topology/environment.h"

namespace lockstep::bench {

struct LaunchOptions {
  int instances = 4;
  int rounds = 30;
  std::optional<PythonPeer> torch{};  ///< ranks of Python that meet over Gloo; unset: not measured
};

/// Throws `Unavailable` if PyTorch or the script is missing.
PythonPeer find_launch_peer(const topology::Environment& environment);

/// Measures the time from the start of a command to the end of its processes, for
///   - empty processes under `lockstep run` and, if it is installed, `mpirun`,
///   - processes that meet once, of lockstep and, if asked for, of PyTorch,
///   - `lockstep version`.
/// Each round runs all commands once.
/// Throws `Io` if a command does not do its work.
Report measure_launch(const LaunchOptions& options, const topology::Environment& environment);

}  // namespace lockstep::bench

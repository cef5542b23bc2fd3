#pragma once

#include <optional>

#include "lockstep/cli/bench_report.h"
#include "lockstep/cli/python_peer.h"
#include "lockstep/topology/environment.h"

namespace lockstep::cli {

struct BenchLaunchOptions {
  int instances = 4;
  int rounds = 30;
  std::optional<PythonPeer> torch{};  ///< ranks of Python that meet over Gloo, where it is set
};

/// Throws `Unavailable` where there is no PyTorch, or this build has not the script.
PythonPeer find_launch_peer(const topology::Environment& environment);

/// Times from a command to the end of its processes: empty ones, beside mpirun where it is
/// installed; those that meet once, beside PyTorch's where that is asked for; and `lockstep
/// version`. Rounds of ours and the peer's alternate.
/// Throws `Io` where a command that is measured does not do its work.
BenchReport bench_launch(const BenchLaunchOptions& options,
                         const topology::Environment& environment);

/// What each process that meets the others does: it adds up ones over all of them, says how many
/// they were, and ends.
void bench_meet();

}  // namespace lockstep::cli

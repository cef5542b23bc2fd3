#pragma once

#include "lockstep/cli/bench_report.h"
#include "lockstep/topology/environment.h"

namespace lockstep::cli {

struct BenchLaunchOptions {
  int instances = 4;
  int rounds = 30;
};

/// Times how long it takes to start empty processes and to see them end, beside mpirun where it is
/// installed, and how long `lockstep version` takes. Rounds of ours and the peer's alternate.
/// Throws `Io` where a command that is measured does not do its work.
BenchReport bench_launch(const BenchLaunchOptions& options,
                         const topology::Environment& environment);

}  // namespace lockstep::cli

#pragma once

#include <string>
#include <vector>

#include "lockstep/cli/bench_report.h"
#include "lockstep/topology/environment.h"

namespace lockstep::cli {

struct Finished {
  Seconds time{0};
  std::string output;  ///< what it wrote to standard output
};

/// Runs a command to its end and returns what it wrote. Throws `Io` where it fails.
Finished run_to_end(const std::vector<std::string>& arguments,
                    const topology::Environment& environment);

}  // namespace lockstep::cli

#pragma once

#include <string>
#include <vector>

#include "bench/driver/report.h"
#include "lockstep/topology/environment.h"

namespace lockstep::bench {

struct Finished {
  Seconds time{0};
  std::string output;  ///< everything that the command wrote to standard output
};

/// Runs a command and waits for it. Throws `Io` if it cannot be started or fails.
Finished run_to_end(const std::vector<std::string>& arguments,
                    const topology::Environment& environment);

}  // namespace lockstep::bench

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bench/comm/collective.h"
#include "bench/driver/report.h"
#include "lockstep/topology/environment.h"

namespace lockstep::bench {

struct CommOptions {
  Collective collective = Collective::AllReduce;
  std::vector<int> instances{2, 4, 8};
  std::vector<std::int64_t> sizes{};                  ///< in bytes
  std::optional<std::vector<std::string>> against{};  ///< peers; unset: those that are built
  int rounds = 10;                                    ///< turns that each system gets
};

/// Measures a collective between real processes of lockstep and of the peers in one run. First
/// verifies the results of every system. Then the systems take turns: the others sleep meanwhile.
/// The workers time the collectives alone, not their own start.
/// Prints missing peers to standard error and, on a terminal, the progress.
///
/// Throws `Options` for a size that cannot be divided among the instances, `Unavailable` for a peer
/// that is named and missing, `Bug` or `Io` if a system computes a wrong result or fails.
Report measure_comm(const CommOptions& options, const topology::Environment& environment);

}  // namespace lockstep::bench

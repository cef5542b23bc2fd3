#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/cli/bench_collective.h"
#include "lockstep/cli/bench_report.h"
#include "lockstep/topology/environment.h"

namespace lockstep::cli {

struct BenchCommOptions {
  Collective collective = Collective::AllReduce;
  std::vector<int> instances{2, 4, 8};
  std::vector<std::int64_t> sizes{};                  ///< in bytes
  std::optional<std::vector<std::string>> against{};  ///< peers; unset: those that are built
  int rounds = 10;                                    ///< turns that each system gets
};

/// Times a collective over real processes, beside the peers in the same run: all are verified
/// first, then they take turns while the others sleep.
/// Standard error says what is missing and, on a terminal, how far it has come.
///
/// Throws `Options` for a size that cannot be divided among the instances, `Unavailable` for a peer
/// that is asked for and not built, `Bug` or `Io` where a system computes wrong or fails.
BenchReport bench_comm(const BenchCommOptions& options, const topology::Environment& environment);

/// What each process of lockstep does while `bench_comm` measures it, given the job's folder.
void bench_comm_worker(const std::string& folder);

}  // namespace lockstep::cli

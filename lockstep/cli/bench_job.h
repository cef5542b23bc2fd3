#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cli/bench_collective.h"
#include "lockstep/cli/bench_process.h"
#include "lockstep/cli/bench_protocol.h"
#include "lockstep/cli/bench_systems.h"
#include "lockstep/topology/environment.h"

namespace lockstep::cli {

/// The running workers of one system, which do nothing until they are asked to.
///
/// Errors: `Io` where a worker ends before it is told to, `Timeout` where one does not answer,
/// whatever `BenchProcess` throws. The processes are gone when the object is.
class BenchJob {
 public:
  /// Starts the workers and waits until all of them are ready. They may use the folder, which is
  /// theirs alone and there already. `patience` is for one answer.
  BenchJob(const BenchSystem& system, int instances, const std::string& folder,
           const topology::Environment& environment,
           std::chrono::milliseconds patience = std::chrono::minutes(2));

  const std::string& name() const noexcept { return name_; }

  /// Throws where an element of the result is wrong on any instance: `Bug` for lockstep itself.
  void verify(const BenchCell& cell);

  /// How long each repetition took on the instance where it took longest.
  std::vector<Seconds> measure(const BenchCell& cell, int repetitions);

  /// Lets the workers go. Throws `Io` where they do not end well.
  void finish();

 private:
  void accept_worker();
  void ask_all(BenchRequest::Task task, const BenchCell& cell, int repetitions);
  void take_answer(int rank, const BenchCell& cell, std::span<std::byte> into);
  void receive(int socket, std::span<std::byte> into, const std::string& doing);
  void await_input(int fd, const std::string& doing);
  Error ended_early(const std::string& doing);
  Error too_slow(const std::string& doing) const;

  std::string name_;
  int instances_;
  std::chrono::milliseconds patience_;
  UniqueFd listener_;
  BenchProcess launcher_;
  std::vector<UniqueFd> workers_;  ///< by rank
};

}  // namespace lockstep::cli

#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "bench/comm/collective.h"
#include "bench/comm/launcher_process.h"
#include "bench/comm/protocol.h"
#include "bench/comm/systems.h"
#include "bench/driver/report.h"
#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/topology/environment.h"

namespace lockstep::bench {

/// "all_reduce 4 KiB, 8 instances".
std::string describe(const Cell& cell);

/// The running workers of one system. They sleep except while this class asks them to work.
///
/// Errors: `Io` if a worker ends too early, `Timeout` if a worker does not answer, and the errors
/// of `LauncherProcess`. The destructor ends the processes.
class Job {
 public:
  /// Starts the workers and waits until all of them are ready. `folder` exists and is used by this
  /// job only. `patience` is the time limit of one answer.
  Job(const System& system, int instances, const std::string& folder,
      const topology::Environment& environment,
      std::chrono::milliseconds patience = std::chrono::minutes(2));

  const std::string& name() const noexcept { return name_; }

  /// Throws if an element of the result is wrong on any instance: `Bug` for lockstep, else `Io`.
  void verify(const Cell& cell);

  /// The time of each repetition on the instance that took longest.
  std::vector<Seconds> measure(const Cell& cell, int repetitions);

  /// Ends the workers. Throws `Io` if they fail.
  void finish();

 private:
  void accept_worker();
  void ask_all(Request::Task task, const Cell& cell, int repetitions);
  void take_answer(int rank, const Cell& cell, std::span<std::byte> into);
  void receive(int socket, std::span<std::byte> into, const std::string& doing);
  void await_input(int fd, const std::string& doing);
  Error ended_early(const std::string& doing);
  Error too_slow(const std::string& doing) const;

  std::string name_;
  int instances_;
  std::chrono::milliseconds patience_;
  UniqueFd listener_;
  LauncherProcess launcher_;
  std::vector<UniqueFd> workers_;  ///< by rank
};

}  // namespace lockstep::bench

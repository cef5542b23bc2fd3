#pragma once

#include <signal.h>
#include <sys/resource.h>
#include <sys/types.h>

#include <string>
#include <vector>

#include "lockstep/base/file.h"

namespace lockstep::launch {

/// All that a new process is made of.
struct SpawnRequest {
  std::string program;                   ///< the file to execute
  std::vector<std::string> arguments;    ///< argv, with the program's name first
  std::vector<std::string> environment;  ///< "NAME=value"
  int stdin_fd = -1;
  int stdout_fd = -1;
  int stderr_fd = -1;
  std::vector<int> inherited{};  ///< descriptors that it keeps, by the same numbers
  std::vector<int> cpus;         ///< to be bound to; empty: as the caller
  sigset_t signal_mask{};
  rlimit descriptors{};  ///< how many files the process may open
};

/// A process that has been made, and waits for the word to execute its program.
class Spawned {
 public:
  Spawned(pid_t pid, UniqueFd hold, UniqueFd failure)
      : pid_(pid), hold_(std::move(hold)), failure_(std::move(failure)) {}

  pid_t pid() const noexcept { return pid_; }

  /// Lets it go on, and returns when the program runs. Throws `NotExecutable` where the kernel
  /// refused it; the process is then about to exit with 126.
  void execute(const std::string& program);

 private:
  pid_t pid_;
  UniqueFd hold_;     ///< the process waits for this to close
  UniqueFd failure_;  ///< the other end closes on exec, or sends an errno first
};

/// The strings as exec and its relatives want them: pointers, and a null at the end.
std::vector<char*> pointers_to(const std::vector<std::string>& strings);

/// Makes a process in a process group of its own that dies with the calling thread. It does not
/// execute anything yet, so that the caller can watch over it first. Throws `Io` where no process
/// can be made.
Spawned spawn(const SpawnRequest& request);

}  // namespace lockstep::launch

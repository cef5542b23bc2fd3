#pragma once

#include <poll.h>
#include <sys/types.h>

#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/events/job_events.h"
#include "lockstep/topology/environment.h"

namespace lockstep::bench {

/// Calls `poll` again if a signal interrupts it, as SIGSTOP and SIGCONT do.
int poll_uninterrupted(std::span<pollfd> fds, std::chrono::milliseconds time);

/// A launcher, such as `lockstep run` or `mpirun`, that runs in the background. It has no input,
/// and its output goes to standard error. It ends with this object or, if this process is killed,
/// with this process.
class LauncherProcess {
 public:
  /// Throws `NotFound` or `NotExecutable` if the command's program cannot be started.
  LauncherProcess(const std::vector<std::string>& command,
                  const topology::Environment& environment);
  /// Sends SIGTERM, so that the launcher can end its processes. Sends SIGKILL if that does not
  /// help.
  ~LauncherProcess();
  LauncherProcess(const LauncherProcess&) = delete;
  LauncherProcess& operator=(const LauncherProcess&) = delete;

  /// A descriptor that becomes readable when the process ends.
  int end_handle() const noexcept { return handle_.get(); }

  /// Returns the exit status, or nothing if the process is still running after this time.
  std::optional<events::ExitStatus> wait_for(std::chrono::milliseconds time);

 private:
  pid_t pid_ = -1;
  UniqueFd handle_;
  std::optional<events::ExitStatus> status_;
};

}  // namespace lockstep::bench

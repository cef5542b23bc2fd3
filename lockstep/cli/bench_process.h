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

namespace lockstep::cli {

/// `poll`, which a stopped and continued process would come out of too early.
int poll_uninterrupted(std::span<pollfd> fds, std::chrono::milliseconds time);

/// A launcher that a benchmark has started. It reads nothing, and all that it writes goes to
/// standard error. It does not outlive this object, nor, should that be killed, this process.
class BenchProcess {
 public:
  /// Throws `NotFound` or `NotExecutable` where the command's program cannot be started.
  BenchProcess(const std::vector<std::string>& command, const topology::Environment& environment);
  /// Ends it with SIGTERM, so that it can end what it has started, and where that does not help
  /// with SIGKILL.
  ~BenchProcess();
  BenchProcess(const BenchProcess&) = delete;
  BenchProcess& operator=(const BenchProcess&) = delete;

  /// A descriptor that is readable once the process has ended.
  int end_handle() const noexcept { return handle_.get(); }

  /// How it ended; nothing where it has not within that time.
  std::optional<events::ExitStatus> wait_for(std::chrono::milliseconds time);

 private:
  pid_t pid_ = -1;
  UniqueFd handle_;
  std::optional<events::ExitStatus> status_;
};

}  // namespace lockstep::cli

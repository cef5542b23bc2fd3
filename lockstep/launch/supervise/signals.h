#pragma once

#include <signal.h>

#include <optional>

#include "lockstep/base/file.h"

namespace lockstep::launch {

/// Whether a signal tells the launcher to end the job.
bool ends_job(int signal);

/// The signals that the launcher acts on, as a descriptor to be polled instead of handlers.
///
/// They are blocked from now to the end of the process, so that one that comes late cannot change
/// its exit code. What the launcher was started with ignored (nohup) stays ignored. After a fork
/// the child may go on using the object: each process takes its own signals.
class Signals {
 public:
  Signals();
  Signals(const Signals&) = delete;
  Signals& operator=(const Signals&) = delete;

  int fd() const noexcept { return fd_.get(); }

  /// The next signal that has arrived, if any.
  std::optional<int> take();

  /// What was blocked before: for the processes that are started.
  const sigset_t& original_mask() const noexcept { return original_; }

 private:
  sigset_t original_{};
  UniqueFd fd_;
};

}  // namespace lockstep::launch

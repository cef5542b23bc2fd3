#pragma once

#include <signal.h>

#include <chrono>
#include <optional>

#include "lockstep/base/file.h"

namespace lockstep::launch {

/// Whether a signal tells the launcher to end the job.
bool ends_job(int signal);

/// `timeout`, some shells and whoever ends a cgroup send a signal to several processes of a job:
/// that is one, not two. So to the supervisor an end signal that comes so soon after one that
/// counted is the same again; but for SIGQUIT, which never means less than to kill.
inline constexpr std::chrono::milliseconds kSameSignal{200};

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

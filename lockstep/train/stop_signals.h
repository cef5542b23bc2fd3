#pragma once

#include <signal.h>

#include <memory>

namespace lockstep::train {

/// While it lives, SIGUSR1 and SIGTERM ask this process for a checkpoint, the latter also to end
/// after it. What they did before they do again afterwards; a second SIGTERM does at once.
///
/// Signals are the process's, and so is this. Any thread may call a member.
class StopSignals {
 public:
  /// The one of this process, as long as somebody holds it.
  static std::shared_ptr<StopSignals> install();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Whether SIGUSR1 has come since the last call.
  bool take_checkpoint_request() noexcept;
  /// Whether SIGTERM has come.
  bool wants_stop() const noexcept;

 private:
  StopSignals();

  struct sigaction before_stop_ {};
  struct sigaction before_checkpoint_ {};
};

}  // namespace lockstep::train

#pragma once

namespace lockstep::train {

/// While one of these lives, SIGUSR1 and SIGTERM ask this process for a checkpoint, the latter also
/// to end after it. What they did before they do again afterwards; another SIGTERM that comes a
/// while after the first does so at once. Within that while it is the same one: whoever ends a
/// group of processes also signals the launcher, which hands it on.
///
/// Signals are the process's, and so are requests: any thread may call a member of any of these.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Whether SIGUSR1 has come since the last call.
  bool take_checkpoint_request() noexcept;
  /// Whether SIGTERM has come since `forget_stop`, be it before this was made.
  bool wants_stop() const noexcept;
  void forget_stop() noexcept;
};

}  // namespace lockstep::train

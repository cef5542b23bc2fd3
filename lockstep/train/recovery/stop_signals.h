#pragma once

namespace lockstep::train {

/// Handles signals while an object exists. SIGUSR1 requests a checkpoint; SIGTERM requests one and
/// the end of the training. The destructor restores the previous handlers.
///
/// A second SIGTERM, at least a second after the first, calls the previous handler. An earlier one
/// counts as the same signal: if a whole group of processes is signaled, the launcher also forwards
/// its own signal.
///
/// All objects of a process share the requests. Any thread may call a member.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// Whether SIGUSR1 has arrived since the last call.
  bool take_checkpoint_request() noexcept;
  /// Whether SIGTERM has arrived since `forget_stop`, also before this object was created.
  bool wants_stop() const noexcept;
  void forget_stop() noexcept;
};

}  // namespace lockstep::train

#pragma once

#include <optional>
#include <vector>

#include "lockstep/events/job_events.h"

namespace lockstep::launch {

/// Whether an instance ended because it was asked to, with a checkpoint to go on from.
bool has_stopped(const events::ExitStatus& status) noexcept;

/// Finds out which instance failed first and by itself, from the order in which they end.
///
/// An instance that exits with the code of `PeerLost` says that it is a victim: another one is the
/// cause, though it may be seen to end a moment later. So such an exit alone gives no verdict yet.
/// One with the code of `Stopped` has ended well, because the job was asked to stop.
class Verdict {
 public:
  /// An instance ended while the job was still meant to run.
  void add(int instance, const events::ExitStatus& status);

  /// The cause, as soon as one is certain.
  std::optional<int> cause() const { return cause_; }

  /// Whether a victim was seen but no cause.
  bool waiting_for_cause() const { return !cause_ && !victims_.empty(); }

  /// Nobody else will come: the first victim is the best that is known.
  std::optional<int> best_guess() const;

 private:
  std::optional<int> cause_;
  std::vector<int> victims_;
};

}  // namespace lockstep::launch

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "lockstep/checkpoint/checkpoint_folder.h"
#include "lockstep/train/state/shared_state.h"
#include "lockstep/train/state/snapshot.h"
#include "lockstep/train/state/state_tensors.h"

namespace lockstep::train {

/// Copies a version of the state for a checkpoint on another thread, while the training continues.
///
/// The second step from now overwrites the copied version. That step waits until the copy is
/// complete. One thread at a time calls the members.
class CheckpointCopy {
 public:
  /// `state` and `tensors` must outlive this object.
  CheckpointCopy(const SharedState& state, StateTensors tensors)
      : state_(state), tensors_(std::move(tensors)) {}

  using Copy = std::function<checkpoint::Content(Snapshot&)>;
  /// Returns the function that copies the version at `from`. Any thread may call it, once. If the
  /// function is destroyed instead, no step waits for it.
  Copy begin(const std::byte* from);

  /// Waits until the memory of the next version is not being copied.
  void wait_before_write();
  /// Waits until nothing is being copied.
  void wait() const;
  /// Seconds for which steps have waited for copies.
  double waited_seconds() const noexcept { return waited_seconds_; }

  const StateTensors& tensors() const noexcept { return tensors_; }

 private:
  const SharedState& state_;
  const StateTensors tensors_;
  std::shared_ptr<std::atomic<bool>> is_copied_;  ///< null if there is no copy to wait for
  std::uint64_t copied_version_ = 0;
  double waited_seconds_ = 0;
};

}  // namespace lockstep::train

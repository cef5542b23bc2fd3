#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/checkpoint_folder.h"
#include "lockstep/nn/model.h"
#include "lockstep/optimizer/optimizer.h"
#include "lockstep/train/state/checkpoint_memory.h"
#include "lockstep/train/state/shared_state.h"
#include "lockstep/weights/match.h"
#include "lockstep/weights/tensor_set.h"

namespace lockstep::train {

/// Converts the flat state of a training to named tensors and back. A checkpoint has these tensors.
///
///     weights  the parameters and buffers, under the names of the model
///     state    "momentum.fc.weight", "exp_avg.…", "exp_avg_sq.…", "average.…", "updates.…" for
///              each trained parameter, and "progress.…" for each number of `Progress`, except
///              `is_stopped`, and for the finished epochs
///
/// Any thread may call a member.
class StateTensors {
 public:
  StateTensors(const WeightLayout& layout, const StateShape& shape,
               const std::vector<nn::Slot>& slots, const Optimizer& optimizer);

  /// Copies the tensors of a version and the frozen weights into `to`, in row-major order.
  checkpoint::Content copy(const std::byte* state, const float* frozen,
                           std::int64_t finished_epochs, CheckpointMemory& to) const;

  /// Writes the state and the frozen weights. Returns the number of finished epochs.
  /// Errors: `Data`, with all differences, if the checkpoint is of another model or optimizer.
  std::int64_t read(const checkpoint::Checkpoint& from, std::byte* state, float* frozen) const;

 private:
  weights::TensorSet copy_weights(const std::byte* state, const float* frozen,
                                  CheckpointMemory& to) const;
  weights::TensorSet copy_state(const std::byte* state, std::int64_t finished_epochs,
                                CheckpointMemory& to) const;
  weights::WantedTensors wanted_state() const;
  std::size_t count_copy_bytes() const;

  const WeightLayout& layout_;
  const StateShape& shape_;
  weights::WantedTensors wanted_;        ///< weights, by slot
  std::vector<at::ScalarType> types_;    ///< by slot
  std::vector<std::string> kept_names_;  ///< the optimizer state, then the average
  std::size_t copy_bytes_;
};

/// Copies a version of the state for a checkpoint on another thread, while the training continues.
///
/// The second version after the copied one is written to the same memory. Before that write,
/// `wait_before_write` waits until the copy is complete. One thread at a time calls the members.
class CheckpointCopy {
 public:
  /// `state` must outlive this object.
  CheckpointCopy(const SharedState& state, StateTensors tensors)
      : state_(state), tensors_(std::move(tensors)) {}

  using Copy = std::function<checkpoint::Content(CheckpointMemory&)>;
  /// Returns the function that copies the version at `from`. Any thread may call it, once. If the
  /// function is destroyed instead, no step waits for it.
  Copy begin(const std::byte* from);

  /// Waits until the memory of the next version is not being copied.
  void wait_before_write();
  /// Waits until nothing is being copied.
  void wait() const {
    if (is_copied_) is_copied_->wait(false);
  }
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

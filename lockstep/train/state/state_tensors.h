#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/nn/model.h"
#include "lockstep/optimizer/optimizer.h"
#include "lockstep/train/state/snapshot.h"
#include "lockstep/train/state/state_layout.h"
#include "lockstep/weights/match.h"
#include "lockstep/weights/tensor_set.h"

namespace lockstep::train {

/// What is written down of a training beside its weights, and read again: the rest of the state,
/// and how many epochs were finished.
struct LoopState {
  std::int64_t finished_epochs = 0;
};

/// The flat state of a training as named tensors, and back: what checkpoints hold.
///
///     weights  the parameters and buffers, under the names of the model
///     state    "momentum.fc.weight", "exp_avg.…", "exp_avg_sq.…", "average.…", "updates.…" for
///              each parameter that is learned, and "progress.…" for each number of `Progress`
///
/// Any thread may call a member.
class StateTensors {
 public:
  StateTensors(const WeightLayout& layout, const StateShape& shape,
               const std::vector<nn::Slot>& slots, const Optimizer& optimizer);

  /// What a copy of a state, with the weights that are frozen, takes.
  std::size_t copy_bytes() const noexcept { return copy_bytes_; }

  /// Copies of tensors, each in row-major order, which `to` holds.
  weights::TensorSet copy_weights(const std::byte* state, const float* frozen, Snapshot& to) const;
  weights::TensorSet copy_state(const std::byte* state, const LoopState& loop, Snapshot& to) const;

  /// Writes a whole state, and the weights that are frozen.
  /// Errors: `Data` where the checkpoint is not of this model and optimizer, with all that differs.
  LoopState read(const checkpoint::Checkpoint& from, std::byte* state, float* frozen) const;

 private:
  weights::WantedTensors wanted_state() const;
  std::size_t count_copy_bytes() const;

  const WeightLayout& layout_;
  const StateShape& shape_;
  weights::WantedTensors wanted_;        ///< weights, by slot
  std::vector<at::ScalarType> types_;    ///< by slot
  std::vector<std::string> kept_names_;  ///< what is kept for each element; last the average
  std::size_t copy_bytes_;
};

}  // namespace lockstep::train

#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "lockstep/nn/model.h"
#include "lockstep/train/state/state_layout.h"
#include "lockstep/train/strategy/replica_group.h"

namespace lockstep::train {

/// Tensors that stay the same on every replica of the job.
///
/// Each local replica has its own tensors, and therefore its own gradients. The parameters share
/// one copy for each instance. Each replica has its own floating-point buffers until `combine`
/// averages them, and its own integer buffers, which must agree. All begin with the values of
/// instance 0.
class MirroredTensors {
 public:
  /// Returns the current tensors of a replica.
  using Source = std::function<std::vector<nn::NamedTensor>()>;

  /// `sources` are by local replica. All have the same names and shapes.
  /// Errors: those of `lay_out_weights`; those of collectives if instances have different tensors.
  MirroredTensors(std::shared_ptr<ReplicaGroup> group, std::vector<Source> sources);

  ReplicaGroup& group() const noexcept { return *group_; }
  /// The tensors for an optimizer: those of the first local replica. All others share their memory.
  std::vector<at::Tensor> parameters() const;

  /// Adds or averages the gradients of all replicas, and stores the result in the gradients of
  /// `parameters`. The gradients of the replicas are reset. Buffers that a replica has changed
  /// become the mean over all replicas.
  /// Errors: `Options` for a sparse gradient, for integer buffers that differ, and for a tensor
  /// that was replaced.
  void combine();
  /// Resets the gradients of all local replicas.
  void forget_gradients();

 private:
  at::Tensor view(const at::Tensor& flat, const PlacedTensor& placed) const;
  void share_first_values();
  void share(const at::Tensor& tensor);
  void attach();
  void check_stayed() const;
  at::Tensor leaf_of(const std::vector<nn::Slot>& slots);
  at::Tensor add_up();
  bool write_gradient(const nn::Slot& slot, const PlacedTensor& placed, const at::Tensor& leaf);

  std::shared_ptr<ReplicaGroup> group_;
  std::vector<Source> sources_;                  ///< by local replica
  std::vector<std::vector<nn::Slot>> replicas_;  ///< their tensors
  WeightLayout layout_;
  at::Tensor values_;  ///< the shared copy: parameters, then floating-point buffers
};

}  // namespace lockstep::train

#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

#include "lockstep/nn/model.h"
#include "lockstep/train/state/state_layout.h"
#include "lockstep/train/strategy/replica_group.h"

namespace lockstep::train {

/// Tensors that are the same on every replica of the job, and stay so.
///
/// Each local replica has tensors of its own, so that each has gradients of its own. Their
/// parameters are read in place from the instance's one copy; floating-point buffers belong to a
/// replica until `combine`, which makes them one again; buffers of whole numbers are each replica's
/// own, and have to agree. All begin with the values of instance 0.
class MirroredTensors {
 public:
  /// What a replica is made of, now.
  using Source = std::function<std::vector<nn::NamedTensor>()>;

  /// By local replica, all of the same names and shapes.
  /// Errors: those of `lay_out_weights`; those of collectives where instances bring other tensors.
  MirroredTensors(std::shared_ptr<ReplicaGroup> group, std::vector<Source> sources);

  ReplicaGroup& group() const noexcept { return *group_; }
  /// What an optimizer changes: those of the first local replica, which all others see.
  std::vector<at::Tensor> parameters() const;

  /// Adds up the gradients of all replicas, or takes their mean, and leaves the result at
  /// `parameters`; those of the replicas are gone. Where no replica has one, there is none. Buffers
  /// that some replica has changed become the mean over all.
  /// Errors: `Options` for a gradient that is sparse, where buffers of whole numbers differ, and
  /// where a tensor was replaced instead of written.
  void combine();
  /// Forgets the gradients of all local replicas.
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
  std::vector<std::vector<nn::Slot>> replicas_;  ///< what they were made of, likewise
  WeightLayout layout_;
  at::Tensor values_;  ///< the one copy: parameters, then floating-point buffers
};

}  // namespace lockstep::train

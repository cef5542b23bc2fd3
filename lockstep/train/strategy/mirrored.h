#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/comm/reduce_op.h"

namespace lockstep {
namespace train {
class MirroredTensors;
class ReplicaGroup;
}  // namespace train

/// The replica on which a function of `Strategy::run` runs.
struct ReplicaContext {
  int replica = 0;               ///< among all replicas of the job, from 0
  int local = 0;                 ///< among the replicas of this instance, from 0
  int num_replicas_in_sync = 1;  ///< R
};

/// A module that is the same on every replica of the job; made by `Scope::module`.
///
/// Each local replica has its own module. The modules share one copy of the parameters. A handle:
/// copies refer to the same modules.
template <typename Module>
class Mirrored {
 public:
  /// The module of a replica, within `Strategy::run`.
  Module& operator[](const ReplicaContext& replica) const {
    return *modules_.at(static_cast<std::size_t>(replica.local));
  }
  /// The module of the first local replica, to read outside of `run`.
  const std::shared_ptr<Module>& module() const noexcept { return modules_.front(); }

 private:
  friend class Scope;
  Mirrored(std::vector<std::shared_ptr<Module>> modules,
           std::shared_ptr<train::MirroredTensors> tensors)
      : modules_(std::move(modules)), tensors_(std::move(tensors)) {}

  std::vector<std::shared_ptr<Module>> modules_;
  std::shared_ptr<train::MirroredTensors> tensors_;
};

/// A trainable tensor that is the same on every replica of the job; made by `Scope::variable`. A
/// handle: copies refer to the same tensor.
class MirroredVariable {
 public:
  /// The tensor of a replica, with its own gradient, within `Strategy::run`.
  const at::Tensor& operator[](const ReplicaContext& replica) const {
    return leaves_.at(static_cast<std::size_t>(replica.local));
  }
  /// The value, without a gradient.
  at::Tensor value() const { return leaves_.front().detach(); }

 private:
  friend class Scope;
  MirroredVariable(std::vector<at::Tensor> leaves, std::shared_ptr<train::MirroredTensors> tensors)
      : leaves_(std::move(leaves)), tensors_(std::move(tensors)) {}

  std::vector<at::Tensor> leaves_;
  std::shared_ptr<train::MirroredTensors> tensors_;
};

/// Numbers of which each replica has its own, such as the number of its samples. Reading them
/// reduces them over all replicas. Made by `Scope::on_read`. A handle: copies refer to the same
/// numbers.
class LOCKSTEP_API OnRead {
 public:
  /// The numbers of a replica, to change within `Strategy::run`.
  at::Tensor& operator[](const ReplicaContext& replica) const {
    return values_->at(static_cast<std::size_t>(replica.local));
  }
  /// Reduces over all replicas of the job. Every instance calls it at the same point.
  at::Tensor read() const;
  /// Sets the numbers of every replica to the initial value.
  void reset();

 private:
  friend class Scope;
  OnRead(std::shared_ptr<train::ReplicaGroup> group, at::Tensor initial, comm::ReduceOp op);

  std::shared_ptr<train::ReplicaGroup> group_;
  at::Tensor initial_;
  comm::ReduceOp op_;
  std::shared_ptr<std::vector<at::Tensor>> values_;
};

/// An optimizer of libtorch that receives the gradients of all replicas; made by
/// `Scope::optimizer`.
///
/// Gradients are added along the tree over replicas, or averaged (`Options::reduction`, by default
/// the mean). Then each instance makes the same update of its copy. The bits depend on the number
/// of replicas, not on the number of instances.
///
/// Use it outside of `Strategy::run`. Every instance makes the same calls in the same order.
class LOCKSTEP_API MirroredOptimizer {
 public:
  /// Combines the gradients of all replicas, updates the variables, and resets the gradients.
  /// Buffers that a replica has changed become the mean over all replicas.
  /// Errors: `Options` for a sparse gradient, for integer buffers that differ between replicas, and
  /// for a module that replaces its tensors; those of collectives.
  void step();
  /// Resets the gradients without an update.
  void zero_grad();
  /// The optimizer, for example to change its learning rate. All instances must change it alike.
  torch::optim::Optimizer& optimizer() noexcept { return *optimizer_; }

 private:
  friend class Scope;
  MirroredOptimizer(std::vector<std::shared_ptr<train::MirroredTensors>> variables,
                    std::unique_ptr<torch::optim::Optimizer> optimizer);

  std::vector<std::shared_ptr<train::MirroredTensors>> variables_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

}  // namespace lockstep

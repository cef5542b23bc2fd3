#pragma once

#include <ATen/core/Tensor.h>
#include <torch/optim/optimizer.h>

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/comm/reduce_op.h"
#include "lockstep/train/strategy/replica_context.h"

namespace lockstep {
namespace train {
class MirroredTensors;
class ReplicaGroup;
}  // namespace train

/// A module that is the same on every replica of the job; made by `Scope::module`.
///
/// Each local replica has a module of its own, over one copy of the parameters. A handle: copies
/// refer to the same.
template <typename Module>
class Mirrored {
 public:
  /// That of a replica, within `Strategy::run`.
  Module& operator[](const ReplicaContext& replica) const {
    return *modules_.at(static_cast<std::size_t>(replica.local));
  }
  /// That of the first local replica: to look at, outside of `run`.
  const std::shared_ptr<Module>& module() const noexcept { return modules_.front(); }

 private:
  friend class Scope;
  Mirrored(std::vector<std::shared_ptr<Module>> modules,
           std::shared_ptr<train::MirroredTensors> tensors)
      : modules_(std::move(modules)), tensors_(std::move(tensors)) {}

  std::vector<std::shared_ptr<Module>> modules_;
  std::shared_ptr<train::MirroredTensors> tensors_;
};

/// A tensor to learn that is the same on every replica of the job; made by `Scope::variable`. A
/// handle: copies refer to the same.
class MirroredVariable {
 public:
  /// That of a replica, with a gradient of its own, within `Strategy::run`.
  const at::Tensor& operator[](const ReplicaContext& replica) const {
    return leaves_.at(static_cast<std::size_t>(replica.local));
  }
  /// Its value, without a gradient.
  at::Tensor value() const { return leaves_.front().detach(); }

 private:
  friend class Scope;
  MirroredVariable(std::vector<at::Tensor> leaves, std::shared_ptr<train::MirroredTensors> tensors)
      : leaves_(std::move(leaves)), tensors_(std::move(tensors)) {}

  std::vector<at::Tensor> leaves_;
  std::shared_ptr<train::MirroredTensors> tensors_;
};

/// A number, or several, of which each replica has its own, as how many samples it has seen;
/// whoever reads it as a whole has it reduced. Made by `Scope::on_read`. A handle: copies refer to
/// the same.
class LOCKSTEP_API OnRead {
 public:
  /// That of a replica, to change within `Strategy::run`.
  at::Tensor& operator[](const ReplicaContext& replica) const {
    return values_->at(static_cast<std::size_t>(replica.local));
  }
  /// Over all replicas of the job. Every instance reads it at the same point.
  at::Tensor read() const;
  /// Every replica has its first value again.
  void reset();

 private:
  friend class Scope;
  OnRead(std::shared_ptr<train::ReplicaGroup> group, at::Tensor initial, comm::ReduceOp op);

  std::shared_ptr<train::ReplicaGroup> group_;
  at::Tensor initial_;
  comm::ReduceOp op_;
  std::shared_ptr<std::vector<at::Tensor>> values_;
};

/// An optimizer of libtorch's that sees the gradients of all replicas: made by `Scope::optimizer`.
///
/// Gradients are added up along the tree over replicas, or averaged where the options say so
/// (`Options::reduction`, the mean by default); then each instance makes the same update of its
/// copy. So the bits are a matter of replicas, not of instances.
///
/// Outside of `Strategy::run`. Every instance makes the same calls in the same order.
class LOCKSTEP_API MirroredOptimizer {
 public:
  /// Takes the gradients that replicas have, combines them and changes the variables. Gradients are
  /// gone afterwards. Buffers that a replica has changed become the mean over all.
  /// Errors: `Options` for a gradient that is sparse, for buffers of whole numbers that differ
  /// between replicas, and for a module that replaces its tensors; those of collectives.
  void step();
  /// Forgets gradients that no step has taken.
  void zero_grad();
  /// To change a learning rate, for example; every instance alike.
  torch::optim::Optimizer& optimizer() noexcept { return *optimizer_; }

 private:
  friend class Scope;
  MirroredOptimizer(std::vector<std::shared_ptr<train::MirroredTensors>> variables,
                    std::unique_ptr<torch::optim::Optimizer> optimizer);

  std::vector<std::shared_ptr<train::MirroredTensors>> variables_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
};

}  // namespace lockstep

#pragma once

#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "lockstep/base/data_type.h"
#include "lockstep/base/export.h"
#include "lockstep/comm/buffer.h"
#include "lockstep/comm/reduce_op.h"
#include "lockstep/nn/model.h"
#include "lockstep/nn/module_model.h"
#include "lockstep/train/api/options.h"
#include "lockstep/train/strategy/mirrored.h"

namespace lockstep {

/// A value of each local replica, by replica.
template <typename Value>
using PerReplica = std::vector<Value>;

/// A tensor or a number.
template <typename Value>
concept Reducible = std::same_as<Value, at::Tensor> || std::is_arithmetic_v<Value>;

/// Creates the variables of a strategy, and optimizers for them.
///
/// Every instance makes the same calls in the same order. Errors: `Options` for a variable that
/// cannot be trained, and if instances disagree.
class LOCKSTEP_API Scope {
 public:
  /// Calls `make` for each local replica. It returns a shared pointer or a holder of a module. The
  /// modules get the values of instance 0. Random numbers are a function of the seed and of the
  /// number of modules so far.
  template <typename Make>
  auto module(const Make& make) const {
    using Module = std::remove_cvref_t<decltype(*make())>;
    std::vector<std::shared_ptr<Module>> modules;
    auto tensors = mirror_modules([&]() -> std::shared_ptr<torch::nn::Module> {
      return modules.emplace_back(nn::module_in(make()));
    });
    return Mirrored<Module>(std::move(modules), std::move(tensors));
  }

  /// A trainable f32 tensor, with a copy of `initial`.
  MirroredVariable variable(const at::Tensor& initial) const;

  /// Numbers of each replica that begin with this value, and are reduced when they are read.
  /// Errors: also `Options` for a mean of integers.
  OnRead on_read(const at::Tensor& initial, comm::ReduceOp op) const;

  /// Creates `Optimizer(parameters, options)` for modules and variables of this scope. Pass each of
  /// them once.
  template <typename Optimizer, typename OptimizerOptions, typename... Variables>
  MirroredOptimizer optimizer(const OptimizerOptions& options,
                              const Variables&... variables) const {
    static_assert(sizeof...(variables) > 0, "an optimizer needs something to change");
    return make_optimizer({variables.tensors_...}, [&](std::vector<at::Tensor> parameters) {
      return std::make_unique<Optimizer>(std::move(parameters), options);
    });
  }

 private:
  friend class Strategy;
  using TensorSource = std::function<std::vector<nn::NamedTensor>()>;
  using MakeModule = std::function<std::shared_ptr<torch::nn::Module>()>;
  using MakeOptimizer =
      std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>;
  explicit Scope(std::shared_ptr<train::ReplicaGroup> group) : group_(std::move(group)) {}
  std::shared_ptr<train::MirroredTensors> mirror(std::vector<TensorSource> sources) const;
  /// Calls `make` once for each local replica.
  std::shared_ptr<train::MirroredTensors> mirror_modules(const MakeModule& make) const;
  MirroredOptimizer make_optimizer(std::vector<std::shared_ptr<train::MirroredTensors>> variables,
                                   const MakeOptimizer& make) const;
  std::vector<at::Tensor> parameters_of(
      const std::vector<std::shared_ptr<train::MirroredTensors>>& variables) const;

  std::shared_ptr<train::ReplicaGroup> group_;
};

/// Runs functions on replicas and combines their results, with the terms of TensorFlow. The base of
/// both strategies.
///
///     auto strategy = DistributedStrategy(options);       // or LocalStrategy
///     auto scope = strategy.scope();
///     auto net = scope.module([] { return Net(); });      // begins with the values of instance 0
///     auto seen = scope.on_read(torch::zeros({}), ReduceOp::Sum);
///     auto optimizer = scope.optimizer<torch::optim::SGD>(torch::optim::SGDOptions(0.1), net);
///
///     const auto losses = strategy.run([&](const ReplicaContext& replica) {
///       auto loss = torch::mse_loss(net[replica].forward(x), y);
///       loss.backward();                                  // this replica's gradients
///       seen[replica] += x.size(0);
///       return loss.item<double>();
///     });
///     optimizer.step();                                   // over all replicas
///     const double loss = strategy.reduce(ReduceOp::Mean, losses);
///     const auto samples = seen.read();                   // reduced on reading
///
/// Objects of its scope keep the replicas alive. Values are combined along the tree over replicas,
/// so results depend on R and not on the number of instances.
///
/// A strategy is for custom loops on CPUs. `TrainingModel` and `Trainer`, which can be made from
/// the options of the strategy, also support stages, GPUs, checkpoints and recovery.
///
/// A handle: copies refer to the same replicas. One thread at a time. Every instance makes the same
/// calls in the same order.
///
/// Errors: `Options` for invalid arguments; those of collectives. An error of one replica is an
/// error on every instance. After it only destruction is allowed.
class LOCKSTEP_API Strategy {
 public:
  /// R: replicas of the whole job.
  int num_replicas_in_sync() const;
  /// Replicas of this instance.
  int num_local_replicas() const;
  int first_replica() const;
  /// For loaders, `TrainingModel` and `Trainer`.
  const Options& options() const noexcept { return state_->options; }

  Scope scope() const { return Scope(shared_group()); }

  /// Calls `function(replica)` for each local replica, in parallel on different devices, and
  /// returns the results. Random numbers are a function of the replica and the number of the call.
  /// A replica is not divided into stages, even if it has several devices.
  template <std::invocable<const ReplicaContext&> Function>
  auto run(const Function& function) const {
    using Value = std::invoke_result_t<const Function&, const ReplicaContext&>;
    if constexpr (std::is_void_v<Value>) {
      run_on_replicas(function);
    } else {
      static_assert(!std::same_as<Value, bool>, "return a number: bits of one byte would collide");
      PerReplica<Value> values(static_cast<std::size_t>(num_local_replicas()));
      run_on_replicas([&](const ReplicaContext& replica) {
        values[static_cast<std::size_t>(replica.local)] = function(replica);
      });
      return values;
    }
  }

  /// Combines the values of the replicas of all instances: tensors of one type and shape, or
  /// numbers. Errors: also `Options` for a mean of integers.
  template <Reducible Value>
  Value reduce(comm::ReduceOp op, const PerReplica<Value>& values) const {
    if constexpr (std::same_as<Value, at::Tensor>) {
      return reduce_tensors(op, values);
    } else {
      std::vector<comm::ConstBuffer> leaves;
      for (const auto& value : values) leaves.emplace_back(&value, 1, kTypeOf<Value>, "reduce");
      Value result{};
      reduce_numbers(op, leaves, {&result, 1, kTypeOf<Value>, "reduce"});
      return result;
    }
  }

 protected:
  explicit Strategy(Options options);
  /// Sets the number of replicas: the number of devices divided by the devices per replica.
  void set_devices(int total);

 private:
  struct State {
    Options options;
    std::shared_ptr<train::ReplicaGroup> group{};  ///< created on first use
  };
  const std::shared_ptr<train::ReplicaGroup>& shared_group() const;
  train::ReplicaGroup& group() const;
  void run_on_replicas(const std::function<void(const ReplicaContext&)>& work) const;
  void check_count(std::size_t values) const;
  at::Tensor reduce_tensors(comm::ReduceOp op, const std::vector<at::Tensor>& values) const;
  void reduce_numbers(comm::ReduceOp op, const std::vector<comm::ConstBuffer>& values,
                      const comm::Buffer& result) const;

  std::shared_ptr<State> state_;
};

/// All replicas are in this process, as for TensorFlow's MirroredStrategy and the IPUStrategy.
///
/// Errors: `Options` in a job with several instances.
class LOCKSTEP_API LocalStrategy : public Strategy {
 public:
  explicit LocalStrategy(Options options = {});

  /// Uses this number of devices, as auto_select_ipus: total / `Options::devices_per_replica`
  /// replicas. Call it before all other functions. Errors: `Options` if the division has a
  /// remainder.
  LocalStrategy& devices(int total) {
    set_devices(total);
    return *this;
  }
};

/// The replicas of all instances of the job, as for TensorFlow's MultiWorkerMirroredStrategy and
/// the PopDistStrategy. Without a launcher, all replicas are in this process.
class DistributedStrategy : public Strategy {
 public:
  explicit DistributedStrategy(Options options = {}) : Strategy(std::move(options)) {}

  /// As `LocalStrategy::devices`. Under a launcher, the number must match that of the launcher.
  DistributedStrategy& devices(int total) {
    set_devices(total);
    return *this;
  }
};

}  // namespace lockstep

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

/// What each local replica returned, by replica.
template <typename Value>
using PerReplica = std::vector<Value>;

/// Something that can be reduced: a tensor, or a number.
template <typename Value>
concept Reducible = std::same_as<Value, at::Tensor> || std::is_arithmetic_v<Value>;

/// Where what is mirrored is made: the variables of a strategy, and optimizers for them.
///
/// Every instance makes the same, in the same order. Errors: `Options` for what cannot be trained,
/// and where instances disagree.
class LOCKSTEP_API Scope {
 public:
  /// What `make` returns, a shared pointer or a holder of a module, for each local replica, with
  /// the values of instance 0. It is called once for each; what its constructors draw is of the
  /// seed, and of how many modules the strategy made before.
  template <typename Make>
  auto module(const Make& make) const {
    using Module = std::remove_cvref_t<decltype(*make())>;
    std::vector<std::shared_ptr<Module>> modules;
    auto tensors = mirror_modules([&]() -> std::shared_ptr<torch::nn::Module> {
      return modules.emplace_back(nn::module_in(make()));
    });
    return Mirrored<Module>(std::move(modules), std::move(tensors));
  }

  /// A tensor of f32 to learn. What is handed over is copied.
  MirroredVariable variable(const at::Tensor& initial) const;

  /// Each replica begins with this value; to read it is to reduce it.
  /// Errors: also `Options` for a mean of whole numbers.
  OnRead on_read(const at::Tensor& initial, comm::ReduceOp op) const;

  /// `Optimizer(parameters, options)` for the parameters of modules and variables of this scope,
  /// each of which is named once.
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

/// How many replicas compute, and what is done on all of them, for people who think in TensorFlow's
/// terms: the part that both strategies have.
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
/// What is made in its scope keeps the replicas alive, so nothing is left dangling. All that
/// crosses instances is combined along the tree over replicas: results are those of R, whatever
/// number of instances carries it.
///
/// It is for loops of one's own, on CPUs. `TrainingModel` and `Trainer`, made from the strategy's
/// options, have more: stages, GPUs, checkpoints and recovery.
///
/// A handle: copies refer to the same replicas. One thread at a time. Every instance makes the same
/// calls in the same order.
///
/// Errors: `Options` for what cannot be meant; those of collectives. What fails on one replica
/// fails on every instance; then only destruction is allowed.
class LOCKSTEP_API Strategy {
 public:
  /// R: replicas of the whole job.
  int num_replicas_in_sync() const;
  /// Those of this instance.
  int num_local_replicas() const;
  int first_replica() const;
  /// For loaders, `TrainingModel` and `Trainer`.
  const Options& options() const noexcept { return state_->options; }

  Scope scope() const { return Scope(shared_group()); }

  /// Calls `function(replica)` for each local replica, those of different devices at the same time,
  /// and returns what each returned. What it draws at random is of the replica and the number of
  /// the call. A replica is computed as a whole, also where it has several devices.
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

  /// Combines what the replicas of all instances returned: tensors of one type and shape, or
  /// numbers. Errors: also `Options` for a mean of whole numbers.
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
  /// Replicas of as many devices as a replica has.
  void set_devices(int total);

 private:
  struct State {
    Options options;
    std::shared_ptr<train::ReplicaGroup> group{};  ///< from its first use on
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

/// All replicas in this process, as TensorFlow's MirroredStrategy and the IPUStrategy.
///
/// Errors: `Options` in a process that is one of several instances.
class LOCKSTEP_API LocalStrategy : public Strategy {
 public:
  explicit LocalStrategy(Options options = {});

  /// So many devices are used: total / `Options::devices_per_replica` replicas, as auto_select_ipus
  /// does. Before anything else. Errors: `Options` where they do not divide.
  LocalStrategy& devices(int total) {
    set_devices(total);
    return *this;
  }
};

/// The replicas of all instances of the job, as TensorFlow's MultiWorkerMirroredStrategy and the
/// PopDistStrategy; alone, all of them are in this process.
class DistributedStrategy : public Strategy {
 public:
  explicit DistributedStrategy(Options options = {}) : Strategy(std::move(options)) {}

  /// As `LocalStrategy::devices`; under a launcher, which has decided, it is compared with that.
  DistributedStrategy& devices(int total) {
    set_devices(total);
    return *this;
  }
};

}  // namespace lockstep

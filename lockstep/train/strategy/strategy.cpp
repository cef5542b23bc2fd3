#include "lockstep/train/strategy/strategy.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/nn/module_tensors.h"
#include "lockstep/nn/random/random_scope.h"
#include "lockstep/nn/scalar_types.h"
#include "lockstep/train/strategy/mirrored_tensors.h"
#include "lockstep/train/strategy/replica_group.h"

namespace lockstep {

std::shared_ptr<train::MirroredTensors> Scope::mirror(std::vector<TensorSource> sources) const {
  std::shared_ptr<train::MirroredTensors> tensors;
  group_->guarded("Scope", [&] {
    tensors = std::make_shared<train::MirroredTensors>(group_, std::move(sources));
  });
  return tensors;
}

std::shared_ptr<train::MirroredTensors> Scope::mirror_modules(const MakeModule& make) const {
  std::vector<TensorSource> sources;
  group_->guarded("Scope::module", [&] {
    const auto key = group_->next_module_key();
    std::shared_ptr<torch::nn::Module> first;
    for (int i = 0; i < group_->local().count; ++i) {
      const nn::RandomScope draws(key);
      auto made = make();
      if (made == nullptr) nn::refuse_null();
      if (i == 0) {
        first = made;
      } else {
        nn::copy_made_module(*first, *made);
      }
      sources.push_back([made = std::move(made)] { return nn::tensors_of(*made); });
    }
  });
  return mirror(std::move(sources));
}

MirroredOptimizer Scope::make_optimizer(
    std::vector<std::shared_ptr<train::MirroredTensors>> variables,
    const MakeOptimizer& make) const {
  std::unique_ptr<torch::optim::Optimizer> made;
  group_->guarded("Scope::optimizer", [&] { made = make(parameters_of(variables)); });
  return {std::move(variables), std::move(made)};
}

MirroredVariable Scope::variable(const at::Tensor& initial) const {
  std::vector<at::Tensor> leaves;
  std::vector<TensorSource> sources;
  group_->guarded("Scope::variable", [&] {
    train::check_numbers("Scope::variable", initial);
    for (int i = 0; i < group_->local().count; ++i) {
      auto leaf = initial.detach().clone().set_requires_grad(initial.is_floating_point());
      leaves.push_back(leaf);
      sources.push_back([leaf] {
        return std::vector<nn::NamedTensor>{{"variable", leaf, nn::TensorRole::Parameter}};
      });
    }
  });
  return {std::move(leaves), mirror(std::move(sources))};
}

OnRead Scope::on_read(const at::Tensor& initial, comm::ReduceOp op) const {
  at::Tensor value;
  group_->guarded("Scope::on_read", [&] {
    train::check_numbers("Scope::on_read", initial);
    const auto type = nn::data_type_of(initial.scalar_type());
    train::check_mean("Scope::on_read", op, type);
    value = initial.detach().contiguous().clone();
    group_->broadcast({value.data_ptr(), value.numel(), type, "value kept per replica"});
  });
  return {group_, value, op};
}

std::vector<at::Tensor> Scope::parameters_of(
    const std::vector<std::shared_ptr<train::MirroredTensors>>& variables) const {
  std::vector<at::Tensor> all;
  for (auto tensors = variables.begin(); tensors != variables.end(); ++tensors) {
    if (&(*tensors)->group() != group_.get()) {
      throw Error(ErrorKind::Options,
                  "Scope::optimizer: expected variables of this strategy, found another's",
                  "make variables and their optimizer in scopes of one strategy");
    }
    const auto first = std::find(variables.begin(), tensors, *tensors);
    if (first != tensors) {
      throw Error(ErrorKind::Options,
                  fmt::format("Scope::optimizer: expected every module and variable once, found "
                              "number {} again as number {}",
                              first - variables.begin() + 1, tensors - variables.begin() + 1),
                  "name each once; a copy of a handle refers to the same");
    }
    const auto parameters = (*tensors)->parameters();
    all.insert(all.end(), parameters.begin(), parameters.end());
  }
  return all;
}

Strategy::Strategy(Options options)
    : state_(std::make_shared<State>(State{.options = std::move(options)})) {}

const std::shared_ptr<train::ReplicaGroup>& Strategy::shared_group() const {
  if (!state_->group) {
    state_->group = std::make_shared<train::ReplicaGroup>(state_->options);
    state_->options.freeze("Strategy");
  }
  return state_->group;
}

train::ReplicaGroup& Strategy::group() const {
  return *shared_group();
}

int Strategy::num_replicas_in_sync() const {
  return group().num_replicas();
}

int Strategy::num_local_replicas() const {
  return group().local().count;
}

int Strategy::first_replica() const {
  return group().local().first;
}

void Strategy::run_on_replicas(const std::function<void(const ReplicaContext&)>& work) const {
  group().run(work);
}

void Strategy::set_devices(int total) {
  const int stages = state_->options.devices_per_replica();
  if (total < stages || total % stages != 0) {
    throw Error(ErrorKind::Options,
                fmt::format("Strategy::devices: expected a multiple of {} devices per replica, "
                            "found {}",
                            stages, total),
                fmt::format("devices({})", std::max(1, total / stages) * stages));
  }
  const int replicas = total / stages;
  const auto& world = state_->options.world();
  if (!world.launched()) {
    state_->options.replicas(replicas);
    return;
  }
  if (replicas == world.num_replicas()) return;
  throw Error(ErrorKind::Options,
              fmt::format("Strategy::devices: expected {} devices for the {} replicas that the "
                          "launcher has set, found {}",
                          world.num_replicas() * stages, world.num_replicas(), total),
              fmt::format("start it with 'lockstep run --num-replicas {}'", replicas));
}

void Strategy::check_count(std::size_t values) const {
  const auto expected = static_cast<std::size_t>(num_local_replicas());
  if (values == expected) return;
  throw Error(ErrorKind::Options,
              fmt::format("Strategy::reduce: expected a value for each of the {} replicas of this "
                          "instance, found {}",
                          expected, values),
              "hand over what Strategy::run returned");
}

at::Tensor Strategy::reduce_tensors(comm::ReduceOp op,
                                    const std::vector<at::Tensor>& values) const {
  at::Tensor result;
  group().guarded("Strategy::reduce", [&] {
    check_count(values.size());
    result = train::reduce_tensors("Strategy::reduce", group(), op, values);
  });
  return result;
}

void Strategy::reduce_numbers(comm::ReduceOp op, const std::vector<comm::ConstBuffer>& values,
                              const comm::Buffer& result) const {
  group().guarded("Strategy::reduce", [&] {
    check_count(values.size());
    train::check_mean("Strategy::reduce", op, result.type);
    group().reduce(values, result, op);
  });
}

LocalStrategy::LocalStrategy(Options options) : Strategy(std::move(options)) {
  const auto instances = this->options().world().num_instances();
  if (instances == 1) return;
  throw Error(ErrorKind::Options,
              fmt::format("LocalStrategy: expected one instance, found {}", instances),
              "use DistributedStrategy, or start it without --num-instances");
}

}  // namespace lockstep

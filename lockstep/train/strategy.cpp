#include "lockstep/train/strategy.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/torch_errors.h"

namespace lockstep {
std::shared_ptr<train::MirroredTensors> Scope::mirror(
    const std::vector<std::vector<nn::NamedTensor>>& tensors) const {
  return nn::with_torch_errors(
      "Scope", [&] { return std::make_shared<train::MirroredTensors>(group_, tensors); });
}

MirroredVariable Scope::variable(const at::Tensor& initial) const {
  train::check_numbers("Scope::variable", initial);
  std::vector<at::Tensor> leaves;
  std::vector<std::vector<nn::NamedTensor>> tensors;
  for (int i = 0; i < group_->local().count; ++i) {
    leaves.push_back(initial.detach().clone().set_requires_grad(initial.is_floating_point()));
    tensors.push_back({{"variable", leaves.back(), nn::TensorRole::Parameter}});
  }
  return {std::move(leaves), mirror(tensors)};
}

OnRead Scope::on_read(const at::Tensor& initial, comm::ReduceOp op) const {
  train::check_numbers("Scope::on_read", initial);
  return {group_, initial, op};
}

std::vector<at::Tensor> Scope::parameters_of(
    const std::vector<std::shared_ptr<train::MirroredTensors>>& variables) const {
  std::vector<at::Tensor> all;
  for (const auto& tensors : variables) {
    if (&tensors->group() != group_.get()) {
      throw Error(ErrorKind::Options,
                  "Scope::optimizer: expected variables of this strategy, found another's",
                  "make variables and their optimizer in scopes of one strategy");
    }
    const auto parameters = tensors->parameters();
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

LocalStrategy::LocalStrategy(Options options) : Strategy(std::move(options)) {
  const auto instances = this->options().world().num_instances();
  if (instances == 1) return;
  throw Error(ErrorKind::Options,
              fmt::format("LocalStrategy: expected one instance, found {}", instances),
              "use DistributedStrategy, or start it without --num-instances");
}

LocalStrategy& LocalStrategy::devices(int total) {
  set_devices(total);
  return *this;
}

DistributedStrategy& DistributedStrategy::devices(int total) {
  set_devices(total);
  return *this;
}

}  // namespace lockstep

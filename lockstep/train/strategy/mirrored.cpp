#include "lockstep/train/strategy/mirrored.h"

#include <ATen/ATen.h>

#include "lockstep/train/strategy/mirrored_tensors.h"
#include "lockstep/train/strategy/replica_group.h"

namespace lockstep {

OnRead::OnRead(std::shared_ptr<train::ReplicaGroup> group, at::Tensor initial, comm::ReduceOp op)
    : group_(std::move(group)),
      initial_(std::move(initial)),
      op_(op),
      values_(std::make_shared<std::vector<at::Tensor>>()) {
  for (int i = 0; i < group_->local().count; ++i) values_->push_back(initial_.clone());
}

at::Tensor OnRead::read() const {
  at::Tensor result;
  group_->guarded("OnRead::read",
                  [&] { result = train::reduce_tensors("OnRead::read", *group_, op_, *values_); });
  return result;
}

void OnRead::reset() {
  for (auto& value : *values_) value = initial_.clone();
}

MirroredOptimizer::MirroredOptimizer(std::vector<std::shared_ptr<train::MirroredTensors>> variables,
                                     std::unique_ptr<torch::optim::Optimizer> optimizer)
    : variables_(std::move(variables)), optimizer_(std::move(optimizer)) {}

void MirroredOptimizer::step() {
  auto& group = variables_.front()->group();
  group.guarded("MirroredOptimizer::step", [&] {
    for (const auto& tensors : variables_) tensors->combine();
    group.run_alone([&] { optimizer_->step(); });
  });
  zero_grad();
}

void MirroredOptimizer::zero_grad() {
  for (const auto& tensors : variables_) tensors->forget_gradients();
}

}  // namespace lockstep

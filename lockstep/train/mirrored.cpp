#include "lockstep/train/mirrored.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/nn/scalar_types.h"
#include "lockstep/nn/torch_errors.h"

namespace lockstep {
namespace train {
namespace {

std::string text_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "none";
  return fmt::format("{} {}", c10::toString(tensor.scalar_type()), c10::str(tensor.sizes()));
}

}  // namespace

void check_numbers(const char* where, const at::Tensor& tensor) {
  constexpr std::array kTypes{at::kHalf, at::kBFloat16, at::kFloat, at::kDouble,
                              at::kInt,  at::kLong,     at::kByte};
  const bool is_known =
      tensor.defined() && tensor.device().is_cpu() && tensor.layout() == at::kStrided &&
      std::find(kTypes.begin(), kTypes.end(), tensor.scalar_type()) != kTypes.end();
  if (is_known) return;
  throw Error(
      ErrorKind::Options,
      fmt::format("{}: expected a dense tensor of numbers in the host's memory, found {}{}", where,
                  text_of(tensor), tensor.defined() ? " on " + tensor.device().str() : ""),
      "tensor.to(torch::kCPU, torch::kFloat)");
}

at::Tensor reduce_tensors(ReplicaGroup& group, comm::ReduceOp op,
                          const std::vector<at::Tensor>& values) {
  std::vector<at::Tensor> dense;
  std::vector<comm::ConstBuffer> leaves;
  const auto take = [&](const at::Tensor& value) {
    check_numbers("Strategy::reduce", value);
    if (text_of(value) != text_of(values.front())) {
      throw Error(ErrorKind::Options,
                  fmt::format("Strategy::reduce: expected {} of every replica, as of replica {}, "
                              "found {} of replica {}",
                              text_of(values.front()), group.local().first, text_of(value),
                              group.local().first + static_cast<int>(dense.size())),
                  "return tensors of one type and shape from every replica");
    }
    dense.push_back(value.detach().contiguous());
    leaves.emplace_back(dense.back().data_ptr(), dense.back().numel(),
                        nn::data_type_of(value.scalar_type()), "reduce");
  };
  group.guarded([&] { std::for_each(values.begin(), values.end(), take); });
  auto result = at::empty_like(dense.front());
  group.reduce(leaves, {result.data_ptr(), result.numel(), leaves.front().type, "reduce"}, op);
  return result;
}

}  // namespace train

OnRead::OnRead(std::shared_ptr<train::ReplicaGroup> group, at::Tensor initial, comm::ReduceOp op)
    : group_(std::move(group)),
      initial_(initial.detach().contiguous().clone()),
      op_(op),
      values_(std::make_shared<std::vector<at::Tensor>>()) {
  group_->broadcast({initial_.data_ptr(), initial_.numel(),
                     nn::data_type_of(initial_.scalar_type()), "value kept per replica"});
  for (int i = 0; i < group_->local().count; ++i) values_->push_back(initial_.clone());
}

at::Tensor OnRead::read() const {
  return train::reduce_tensors(*group_, op_, *values_);
}

void OnRead::reset() {
  for (auto& value : *values_) value = initial_.clone();
}

MirroredOptimizer::MirroredOptimizer(std::vector<std::shared_ptr<train::MirroredTensors>> variables,
                                     std::unique_ptr<torch::optim::Optimizer> optimizer)
    : variables_(std::move(variables)), optimizer_(std::move(optimizer)) {}

void MirroredOptimizer::step() {
  auto& group = variables_.front()->group();
  group.guarded([&] {
    nn::with_torch_errors("MirroredOptimizer::step", [&] {
      for (const auto& tensors : variables_) tensors->combine();
    });
  });
  group.run_alone([&] { optimizer_->step(); });
  zero_grad();
}

void MirroredOptimizer::zero_grad() {
  for (const auto& tensors : variables_) tensors->forget_gradients();
}

}  // namespace lockstep

#include "lockstep/train/backends/gpu/cuda/gpu_model.h"

#include <c10/core/DeviceGuard.h>
#include <fmt/format.h>
#include <torch/types.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/autocast.h"
#include "lockstep/nn/random/random_scope.h"
#include "lockstep/nn/scalar_types.h"
#include "lockstep/train/backends/replica.h"

namespace lockstep::train {

GpuModel::GpuModel(std::unique_ptr<nn::Model> model, const WeightLayout& layout,
                   const GpuState& state, const Task& task)
    : model_(std::move(model)),
      slots_(nn::slots_of(model_->tensors())),
      layout_(layout),
      state_(state),
      task_(task),
      buffers_(at::empty_like(state.buffers())),
      integers_(at::empty_like(state.integers())) {
  const torch::NoGradGuard no_grad;
  attach(WeightsKind::Trained);
  const auto put = [&](const PlacedTensor& placed, const at::Tensor& view) {
    for (auto tensor : slots_[placed.slot].tensors) tensor.set_data(view);
  };
  for (const auto& parameter : layout_.frozen) {
    put(parameter, state_.frozen(parameter));
    for (auto tensor : slots_[parameter.slot].tensors) tensor.set_requires_grad(false);
  }
  for (const auto& buffer : layout_.buffers) {
    put(buffer,
        buffers_.as_strided(buffer.sizes, buffer.strides, buffer.first - layout_.num_parameters));
  }
  for (const auto& integer : layout_.integers) {
    const auto type = slots_[integer.slot].tensor().scalar_type();
    const auto bytes = integer.count * static_cast<std::int64_t>(at::elementSize(type));
    put(integer, integers_.narrow(0, integer.first, bytes)
                     .view(type)
                     .as_strided(integer.sizes, integer.strides));
  }
  model_->set_mode(nn::Mode::Train);
}

void GpuModel::attach(WeightsKind weights) {
  const torch::NoGradGuard no_grad;
  for (const auto& parameter : layout_.parameters) {
    const auto view =
        weights == WeightsKind::Average ? state_.averaged(parameter) : state_.parameter(parameter);
    for (auto tensor : slots_[parameter.slot].tensors) tensor.set_data(view);
  }
}

void GpuModel::begin_replica() {
  const torch::NoGradGuard no_grad;
  buffers_.copy_(state_.buffers());
  integers_.copy_(state_.integers());
}

/// The loss is always computed in 32 bits, because a loss of 16 bits would be too coarse.
at::Tensor GpuModel::forward(const Fields& fields) const {
  auto output = model_->forward(model_input(fields, task_));
  return at::isReducedFloatingType(output.scalar_type()) ? output.to(at::kFloat) : output;
}

at::Tensor GpuModel::metrics_of(const at::Tensor& output, const Fields& fields) const {
  const torch::NoGradGuard no_grad;
  std::vector<at::Tensor> sums;
  for (const auto& metric : task_.metrics) {
    sums.push_back(sum_of(metric, output.detach(), fields).to(at::kFloat).reshape({}));
  }
  return sums.empty() ? at::zeros({0}, buffers_.options()) : at::stack(sums);
}

/// Only the forward pass is cast. The backward pass uses the same types.
std::pair<at::Tensor, at::Tensor> GpuModel::learn_from(const Fields& fields,
                                                       std::int64_t groups) const {
  const nn::Autocast autocast(state_.compute());
  auto output = forward(fields);
  auto losses = task_.loss.of_groups(output, fields, groups);
  return {std::move(output), std::move(losses)};
}

GpuPassResult GpuModel::run(const Fields& fields, const GpuPass& pass, const at::Tensor& loss_scale,
                            const Draws& draws) {
  const c10::DeviceGuard guard(state_.device());
  const gpu::GroupKeys keys{.seed = draws.seed,
                            .step = draws.step,
                            .first_replica = static_cast<std::uint32_t>(pass.first_replica),
                            .first_micro_batch = static_cast<std::uint32_t>(pass.first_micro_batch),
                            .micro_batches = static_cast<std::uint32_t>(pass.micro_batches),
                            .groups = static_cast<std::uint32_t>(pass.groups())};
  const nn::RandomScope scope(&keys);
  model_->set_grouping({pass.groups(), pass.replicas});
  const auto [output, losses] = learn_from(fields, pass.groups());
  if (losses.dim() != 1 || losses.size(0) != pass.groups()) {
    throw Error(ErrorKind::Options,
                fmt::format("loss: expected one number, found {}", c10::str(losses.sizes())),
                "return the mean over the micro-batch");
  }
  (losses.sum() * loss_scale).backward();
  return {.losses = losses.detach().to(at::kFloat).reshape({pass.replicas, -1}).mean(1),
          .metrics = metrics_of(output, fields)};
}

std::vector<gpu::LeafTensor> GpuModel::leaf() {
  const torch::NoGradGuard no_grad;
  gradients_.clear();
  std::vector<gpu::LeafTensor> tensors;
  for (const auto& parameter : layout_.parameters) {
    gradients_.push_back(gradient_of(slots_[parameter.slot], parameter));
    const auto& gradient = gradients_.back();
    tensors.push_back(
        {.data = gradient.defined() ? gradient.data_ptr() : nullptr,
         .first = parameter.first,
         .type = gradient.defined() ? nn::data_type_of(gradient.scalar_type()) : DataType::F32,
         .is_buffer = false});
  }
  for (const auto& buffer : layout_.buffers) {
    tensors.push_back({.data = buffers_.data_ptr<float>() + (buffer.first - layout_.num_parameters),
                       .first = buffer.first,
                       .type = DataType::F32,
                       .is_buffer = true});
  }
  return tensors;
}

void GpuModel::forget_gradients() {
  gradients_.clear();
  for (const auto& parameter : layout_.parameters) {
    for (auto tensor : slots_[parameter.slot].tensors) tensor.mutable_grad().reset();
  }
}

ReplicaResult GpuModel::evaluate(const Fields& fields, const std::string& class_field) {
  const torch::NoGradGuard no_grad;
  const c10::DeviceGuard guard(state_.device());
  const nn::Autocast autocast(state_.compute());
  return evaluate_output(forward(fields), fields, task_, class_field);
}

at::Tensor GpuModel::predict(const at::Tensor& input) {
  const torch::NoGradGuard no_grad;
  const c10::DeviceGuard guard(state_.device());
  const nn::Autocast autocast(state_.compute());
  return model_->forward(input);
}

}  // namespace lockstep::train

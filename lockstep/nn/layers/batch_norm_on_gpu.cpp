#include <c10/core/DeviceGuard.h>
#include <torch/types.h>

#include "lockstep/gpu/layers/batch_norm.h"
#include "lockstep/nn/gpu_stream.h"
#include "lockstep/nn/layers/batch_norm_passes.h"
#include "lockstep/nn/scalar_types.h"

namespace lockstep::nn {
namespace {

using kernels::Activation;
using kernels::Gate;

gpu::NormShape shape_of(const at::Tensor& rows, std::int64_t groups) {
  const auto channels = rows.size(1);
  return {.type = data_type_of(rows.scalar_type()),
          .groups = groups,
          .rows = rows.numel() / channels / groups,
          .channels = channels};
}

gpu::NormActivation activation_of(Activation activation) {
  return activation == Activation::Relu ? gpu::NormActivation::Relu : gpu::NormActivation::None;
}

gpu::NormParameters parameters_of(const at::Tensor& weight, const at::Tensor& bias,
                                  double epsilon) {
  return {.weight = weight.data_ptr<float>(),
          .bias = bias.data_ptr<float>(),
          .epsilon = static_cast<float>(epsilon)};
}

void* device_pointer(const at::Tensor& tensor) {
  return tensor.defined() ? tensor.data_ptr() : nullptr;
}

at::Tensor make_workspace(const gpu::NormShape& shape, const at::Tensor& like) {
  const auto bytes = static_cast<std::int64_t>(gpu::norm_workspace_bytes(shape));
  return at::empty({bytes}, like.options().dtype(at::kByte));
}

/// A backward pass then reads a bit of each number of y instead of the number.
at::Tensor make_marks(const gpu::NormForward& forward, const at::Tensor& like) {
  const auto bytes = static_cast<std::int64_t>(gpu::norm_mark_bytes(forward));
  return bytes == 0 ? at::Tensor() : at::empty({bytes}, like.options().dtype(at::kByte));
}

/// [2, groups, channels]: means, then inverse deviations.
gpu::NormStatistics statistics_of(const at::Tensor& normalizations) {
  return {.mean = normalizations.select(0, 0).data_ptr<float>(),
          .inverse_deviation = normalizations.select(0, 1).data_ptr<float>()};
}

class GpuPasses final : public NormPasses {
 public:
  NormKept normalize(const NormInput& input, const BatchNormCall& call,
                     const at::Tensor& y) const override {
    const c10::DeviceGuard guard(y.device());
    const auto shape = shape_of(input.rows, call.groups);
    auto normalizations =
        at::empty({2, shape.groups, shape.channels}, y.options().dtype(at::kFloat));
    const auto workspace = make_workspace(shape, y);
    gpu::NormForward forward{
        .shape = shape,
        .parameters = parameters_of(call.weight, call.bias, call.epsilon),
        .activation = activation_of(call.activation),
        .x = device_pointer(input.rows),
        .residual = device_pointer(input.residual),
        .y = device_pointer(y),
        .statistics = statistics_of(normalizations),
        .running = {.mean = call.running_mean.data_ptr<float>(),
                    .variance = call.running_var.data_ptr<float>(),
                    .momentum = static_cast<float>(call.momentum),
                    .chains = call.replicas,
                    .count = call.num_batches_tracked.data_ptr<std::int64_t>()},
        .workspace = workspace.data_ptr()};
    const bool needs_marks = input.residual.defined() && call.activation == Activation::Relu;
    auto marks = needs_marks ? make_marks(forward, y) : at::Tensor();
    forward.marks = static_cast<std::uint8_t*>(device_pointer(marks));
    gpu::norm_forward(forward, gpu_stream_of(y));
    return {.normalizations = std::move(normalizations), .marks = std::move(marks)};
  }

  void differentiate(const NormArriving& arriving, NormGradients& gradients) const override {
    const auto& x = arriving.x;
    const c10::DeviceGuard guard(x.device());
    const auto shape = shape_of(x, arriving.groups);
    const auto workspace = make_workspace(shape, x);
    gradients.weight = at::empty({shape.channels}, x.options().dtype(at::kFloat));
    gradients.bias = at::empty_like(gradients.weight);
    const auto dx = gradients.x.defined() ? gradients.x : at::empty_like(x);
    gpu::norm_backward(
        {.shape = shape,
         .parameters = parameters_of(arriving.weight, arriving.bias, arriving.epsilon),
         .activation =
             arriving.gate == Gate::Open ? gpu::NormActivation::None : gpu::NormActivation::Relu,
         .x = device_pointer(x),
         .y = device_pointer(arriving.y),
         .marks = static_cast<const std::uint8_t*>(device_pointer(arriving.kept.marks)),
         .statistics = statistics_of(arriving.kept.normalizations),
         .dy = device_pointer(arriving.dy),
         .second_dy = device_pointer(arriving.more_dy),
         .dx = device_pointer(dx),
         .residual_gradient = device_pointer(gradients.residual),
         .weight_gradient = gradients.weight.data_ptr<float>(),
         .bias_gradient = gradients.bias.data_ptr<float>(),
         .workspace = workspace.data_ptr()},
        gpu_stream_of(x));
    if (!gradients.wants_weight) gradients.weight.reset();
    if (!gradients.wants_bias) gradients.bias.reset();
  }

  void evaluate(const NormInput& input, const BatchNormCall& call,
                const at::Tensor& y) const override {
    const c10::DeviceGuard guard(y.device());
    gpu::norm_evaluate({.shape = shape_of(input.rows, 1),
                        .parameters = parameters_of(call.weight, call.bias, call.epsilon),
                        .activation = activation_of(call.activation),
                        .x = device_pointer(input.rows),
                        .residual = device_pointer(input.residual),
                        .y = device_pointer(y),
                        .running_mean = call.running_mean.data_ptr<float>(),
                        .running_variance = call.running_var.data_ptr<float>()},
                       gpu_stream_of(y));
  }
};

}  // namespace

const NormPasses& gpu_norm_passes() {
  static const GpuPasses passes;
  return passes;
}

}  // namespace lockstep::nn

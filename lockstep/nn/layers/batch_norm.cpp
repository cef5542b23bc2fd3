#include "lockstep/nn/layers/batch_norm.h"

#include <ATen/Context.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include "lockstep/base/error.h"
#include "lockstep/nn/layers/batch_norm_function.h"

namespace lockstep::nn {
namespace {

std::string text_of(at::IntArrayRef sizes) {
  return fmt::format("[{}]", fmt::join(sizes.begin(), sizes.end(), ", "));
}

/// Nor one with a tangent: the kernels have no forward derivatives.
bool is_plain(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && !tensor._fw_grad(/*level=*/0).defined();
}

bool has_kernel_for_type(const at::Tensor& x) {
  if (x.scalar_type() == at::kFloat) return x.is_cpu() || x.is_cuda();
  return x.is_cuda() && (x.scalar_type() == at::kHalf || x.scalar_type() == at::kBFloat16);
}

}  // namespace

BatchNormImpl::BatchNormImpl(std::int64_t channels, BatchNormOptions options)
    : channels_(channels), options_(options) {
  if (channels < 1) {
    throw Error(ErrorKind::Options,
                fmt::format("batch norm: expected at least one channel, found {}", channels));
  }
  BatchNormImpl::reset();
}

void BatchNormImpl::reset() {
  weight = register_parameter("weight", torch::ones({channels_}));
  bias = register_parameter("bias", torch::zeros({channels_}));
  running_mean = register_buffer("running_mean", torch::zeros({channels_}));
  running_var = register_buffer("running_var", torch::ones({channels_}));
  num_batches_tracked =
      register_buffer("num_batches_tracked", torch::zeros({}, at::TensorOptions(at::kLong)));
}

void BatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << fmt::format("lockstep::nn::BatchNorm({}, eps={}, momentum={}, groups={})", channels_,
                        options_.epsilon, options_.momentum, groups_);
}

void BatchNormImpl::set_groups(std::int64_t groups, std::int64_t replicas) {
  if (groups < 1) {
    throw Error(ErrorKind::Options,
                fmt::format("batch norm: expected at least one group, found {}", groups));
  }
  if (replicas < 1 || groups % replicas != 0) {
    throw Error(ErrorKind::Options,
                fmt::format("batch norm: expected groups that replicas share evenly, found {} "
                            "groups of {} replicas",
                            groups, replicas));
  }
  groups_ = groups;
  replicas_ = replicas;
}

at::Tensor BatchNormImpl::forward(const at::Tensor& x) {
  return run(x, {}, Relu::No);
}

at::Tensor BatchNormImpl::forward_relu(const at::Tensor& x) {
  return run(x, {}, Relu::Yes);
}

at::Tensor BatchNormImpl::forward_add_relu(const at::Tensor& x, const at::Tensor& residual) {
  if (!residual.defined()) {
    throw Error(ErrorKind::Options, "batch norm: expected a residual to add, found none",
                "call forward_relu");
  }
  return run(x, residual, Relu::Yes);
}

at::Tensor BatchNormImpl::run(const at::Tensor& x, const at::Tensor& residual, Relu relu) {
  check(x, residual);
  if (is_training() && replicas_ > 1) check_can_part_replicas(x, residual);
  if (!has_kernel_for(x, residual) || (!is_training() && needs_gradient(x, residual))) {
    return compose(x, residual, relu);
  }
  const auto activation = relu == Relu::Yes ? kernels::Activation::Relu : kernels::Activation::None;
  const BatchNormCall call{.weight = weight,
                           .bias = bias,
                           .running_mean = running_mean,
                           .running_var = running_var,
                           .num_batches_tracked = num_batches_tracked,
                           .momentum = options_.momentum,
                           .epsilon = options_.epsilon,
                           .groups = groups_,
                           .replicas = replicas_,
                           .activation = activation};
  return is_training() ? batch_norm_in_training(x, residual, call)
                       : batch_norm_in_evaluation(x, residual, call);
}

void BatchNormImpl::check(const at::Tensor& x, const at::Tensor& residual) const {
  if (x.dim() < 2 || x.size(1) != channels_) {
    throw Error(ErrorKind::Options,
                fmt::format("batch norm: expected an input of {} channels, found the shape {}",
                            channels_, text_of(x.sizes())));
  }
  if (residual.defined() && residual.sizes() != x.sizes()) {
    throw Error(ErrorKind::Options,
                fmt::format("batch norm: expected a residual of the input's shape {}, found {}",
                            text_of(x.sizes()), text_of(residual.sizes())));
  }
  if (!is_training()) return;
  if (x.size(0) % groups_ != 0) {
    throw Error(ErrorKind::Options,
                fmt::format("batch norm: expected a batch of {} equal groups, found {} samples",
                            groups_, x.size(0)),
                fmt::format("use a batch size that {} divides", groups_));
  }
  if (x.numel() == groups_ * channels_) {
    throw Error(ErrorKind::Options,
                fmt::format("batch norm: expected more than one value per channel in training, "
                            "found the shape {} in {} group{}",
                            text_of(x.sizes()), groups_, groups_ == 1 ? "" : "s"),
                "raise the batch size, or call eval()");
  }
}

void BatchNormImpl::check_can_part_replicas(const at::Tensor& x, const at::Tensor& residual) const {
  if (x.is_cuda() && has_kernel_for(x, residual)) return;
  throw Error(ErrorKind::Unavailable,
              fmt::format("batch norm: expected f32, fp16 or bf16 on a GPU for several replicas at "
                          "once, found {} on {}",
                          c10::toString(x.scalar_type()), x.device().str()),
              "train with --fuse off");
}

bool BatchNormImpl::has_kernel_for(const at::Tensor& x, const at::Tensor& residual) const {
  if (kernels_ == NormKernels::Libtorch || (x.dim() != 2 && x.dim() != 4)) return false;
  if (x.numel() == 0 || !is_plain(x) || !has_kernel_for_type(x)) return false;
  if (residual.defined() && (!is_plain(residual) || residual.scalar_type() != x.scalar_type() ||
                             residual.device() != x.device())) {
    return false;
  }
  for (const auto* own : {&weight, &bias, &running_mean, &running_var}) {
    const bool fits = is_plain(*own) && own->scalar_type() == at::kFloat &&
                      own->device() == x.device() && own->is_contiguous();
    if (!fits) return false;
  }
  return num_batches_tracked.device() == x.device();
}

bool BatchNormImpl::needs_gradient(const at::Tensor& x, const at::Tensor& residual) const {
  return at::GradMode::is_enabled() &&
         (x.requires_grad() || weight.requires_grad() || bias.requires_grad() ||
          (residual.defined() && residual.requires_grad()));
}

at::Tensor BatchNormImpl::compose(const at::Tensor& x, const at::Tensor& residual, Relu relu) {
  auto y = normalize_composed(x);
  // In place, as torchvision does: nobody else has y, and no backward pass needs what it was.
  if (residual.defined()) y.add_(residual);
  return relu == Relu::Yes ? y.relu_() : y;
}

at::Tensor BatchNormImpl::normalize_composed(const at::Tensor& x) {
  const auto normalize = [&](const at::Tensor& group) {
    return at::batch_norm(group, weight, bias, running_mean, running_var, is_training(),
                          options_.momentum, options_.epsilon,
                          at::globalContext().userEnabledCuDNN());
  };
  if (!is_training()) return normalize(x);
  num_batches_tracked.add_(groups_);
  if (groups_ == 1) return normalize(x);
  auto groups = x.chunk(groups_);
  for (auto& group : groups) group = normalize(group);
  return at::cat(groups);
}

}  // namespace lockstep::nn

#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <cstdint>

#include "lockstep/base/export.h"

namespace lockstep::nn {

struct BatchNormOptions {
  double epsilon = 1e-5;
  double momentum = 0.1;  ///< how far running statistics move at each step
};

/// Who computes.
enum class NormKernels {
  Fused,     ///< our own
  Libtorch,  ///< libtorch's operations one after another, to compare with
};

/// Batch normalization of [N, C] or [N, C, H, W], and what follows it in a residual network in the
/// same pass over memory: an addition, a ReLU. Parameters and buffers are named as torchvision
/// names them.
///
/// f32 on a CPU is computed by kernels of our own: pictures come out channels-last, and results
/// do not depend on the number of threads, on the vector unit or on the memory format of the
/// input. So are f32, fp16 and bf16 on a GPU, with parameters in f32: the same bits in every run.
/// Anything else is composed of libtorch's operations. Gradients of gradients are refused in
/// training.
///
/// Inputs are never modified. One thread at a time may call a member. A copy made by `clone` has
/// its own parameters and buffers.
///
/// Errors: `Options` for inputs that cannot be normalized, naming what was found.
class LOCKSTEP_API BatchNormImpl : public torch::nn::Cloneable<BatchNormImpl> {
 public:
  explicit BatchNormImpl(std::int64_t channels, BatchNormOptions options = {});

  void reset() override;
  void pretty_print(std::ostream& stream) const override;

  at::Tensor forward(const at::Tensor& x);
  at::Tensor forward_relu(const at::Tensor& x);
  /// relu(normalized x + residual).
  at::Tensor forward_add_relu(const at::Tensor& x, const at::Tensor& residual);

  /// In training, each of `groups` equal parts of the batch is normalized by its own statistics,
  /// and moves the running ones, as if they came one after another. Where they are those of several
  /// replicas, one after the other, each replica moves running statistics of its own, whose mean
  /// remains; only kernels for GPUs do that.
  void set_groups(std::int64_t groups, std::int64_t replicas = 1);
  std::int64_t groups() const noexcept { return groups_; }
  void use(NormKernels kernels) noexcept { kernels_ = kernels; }
  std::int64_t channels() const noexcept { return channels_; }

  torch::Tensor weight;
  torch::Tensor bias;
  torch::Tensor running_mean;
  torch::Tensor running_var;
  torch::Tensor num_batches_tracked;

 private:
  enum class Relu { No, Yes };

  at::Tensor run(const at::Tensor& x, const at::Tensor& residual, Relu relu);
  at::Tensor compose(const at::Tensor& x, const at::Tensor& residual, Relu relu);
  at::Tensor normalize_composed(const at::Tensor& x);
  void check(const at::Tensor& x, const at::Tensor& residual) const;
  void check_can_part_replicas(const at::Tensor& x, const at::Tensor& residual) const;
  bool has_kernel_for(const at::Tensor& x, const at::Tensor& residual) const;
  bool needs_gradient(const at::Tensor& x, const at::Tensor& residual) const;

  std::int64_t channels_;
  BatchNormOptions options_;
  std::int64_t groups_ = 1;
  std::int64_t replicas_ = 1;
  NormKernels kernels_ = NormKernels::Fused;
};

TORCH_MODULE(BatchNorm);

}  // namespace lockstep::nn

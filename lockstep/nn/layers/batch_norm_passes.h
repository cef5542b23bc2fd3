#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "lockstep/nn/layers/batch_norm_kernels.h"

namespace lockstep::nn {

/// What a call of the layer takes besides its input. Parameters and running statistics are f32, on
/// the device of the input.
struct BatchNormCall {
  at::Tensor weight;
  at::Tensor bias;
  at::Tensor running_mean;
  at::Tensor running_var;
  at::Tensor num_batches_tracked;
  double momentum;
  double epsilon;
  std::int64_t groups;
  std::int64_t replicas;  ///< whose groups follow each other
  kernels::Activation activation;
};

/// A batch as rows: channels of a pixel follow each other.
struct NormInput {
  at::Tensor rows;
  at::Tensor residual;  ///< undefined where nothing is added
};

/// What a backward pass has to know of the groups and, for Gate::Output, of where y is not <= 0:
/// undefined where y itself has to tell.
struct NormKept {
  at::Tensor normalizations;
  at::Tensor marks;
};

/// What arrives at a backward pass, and what the forward pass had: for Gate::Output alone, `y` or
/// the marks in `kept`.
struct NormArriving {
  at::Tensor dy;
  at::Tensor more_dy;  ///< to be added to dy, or undefined; takes Gate::Output
  at::Tensor x;
  at::Tensor y;
  at::Tensor weight;
  at::Tensor bias;
  NormKept kept;
  double epsilon;
  std::int64_t groups;
  kernels::Gate gate;
};

/// `x` and `residual` are memory to write to, undefined where one is not wanted; one of them may be
/// that of `dy`, and the other that of `more_dy`. The rest is made by who computes it: f32
/// [channels], over all groups in order.
struct NormGradients {
  at::Tensor x{};
  at::Tensor residual{};
  bool wants_weight = false;
  bool wants_bias = false;
  at::Tensor weight{};
  at::Tensor bias{};
};

/// The passes over a batch that a layer is made of, by the kernels of one kind of device.
class NormPasses {
 public:
  virtual ~NormPasses() = default;

  /// Writes y, and moves the running statistics and their count.
  virtual NormKept normalize(const NormInput& input, const BatchNormCall& call,
                             const at::Tensor& y) const = 0;
  virtual void differentiate(const NormArriving& arriving, NormGradients& gradients) const = 0;
  /// By running statistics.
  virtual void evaluate(const NormInput& input, const BatchNormCall& call,
                        const at::Tensor& y) const = 0;
};

const NormPasses& cpu_norm_passes();
const NormPasses& gpu_norm_passes();

}  // namespace lockstep::nn

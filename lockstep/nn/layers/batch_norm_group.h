#pragma once

#include <cstdint>
#include <functional>

#include "lockstep/nn/layers/batch_norm_kernels.h"

/// Batch normalization of one group: a matrix [rows][channels] of f32 that is normalized by its own
/// statistics, with what follows it (an addition, a ReLU) in the same pass over memory.
namespace lockstep::nn::batch_norm {

using kernels::Activation;
using kernels::Gate;

/// Runs `work(first, last)` over parts of [0, tasks), perhaps side by side; a part of fewer than
/// `grain` tasks is not worth a thread. Results do not depend on how it divides them.
using Parallel =
    std::function<void(std::int64_t tasks, std::int64_t grain,
                       const std::function<void(std::int64_t first, std::int64_t last)>& work)>;

struct Shape {
  std::int64_t rows;
  std::int64_t channels;
};

/// Per channel: what a group was normalized with, kept for the backward pass.
struct Normalization {
  float* mean;
  float* inverse_deviation;
  float* scale;
  float* offset;
};

/// The parameters of the layer, and its running statistics, which are moved where they are not
/// null.
struct Parameters {
  const float* weight;
  const float* bias;
  float* running_mean;
  float* running_variance;
  double momentum;
  double epsilon;
};

/// Takes the group's statistics, fills `normalization` and moves the running statistics.
/// A variance of a single row is 0, and its running variance NaN.
void take_statistics(const Shape& shape, const float* x, const Parameters& parameters,
                     const Normalization& normalization, const Parallel& parallel);

/// Scale and offset of the running statistics.
void use_running_statistics(std::int64_t channels, const Parameters& parameters, float* scale,
                            float* offset);

/// y = activation(x * scale + offset + residual), where `residual` may be null.
void apply(const Shape& shape, const float* x, const float* residual, const float* scale,
           const float* offset, Activation activation, float* y, const Parallel& parallel);

/// The gradient that arrives, and what the forward pass had: `y` is for Gate::Output alone.
struct Arriving {
  const float* dy;
  const float* more_dy;  ///< to be added to dy, or null; takes Gate::Output, and `dz` to be wanted
  const float* x;
  const float* y;
  Gate gate;
};

/// Null where a gradient is not wanted; that of the residual (`dz`) takes Gate::Output. One of `dx`
/// and `dz` may be the memory of `dy`, and the other that of `more_dy`.
struct Gradients {
  float* dx;
  float* dz;
  float* weight;
  float* bias;
};

void backward(const Shape& shape, const Arriving& arriving, const Normalization& normalization,
              const Gradients& gradients, const Parallel& parallel);

}  // namespace lockstep::nn::batch_norm

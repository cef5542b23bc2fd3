#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/nn/layers/batch_norm_passes.h"

namespace lockstep::nn {

/// Normalizes each group by its own statistics, moves the running ones, and takes part in autograd.
/// `residual` may be undefined; where it is not, there is a ReLU.
at::Tensor batch_norm_in_training(const at::Tensor& x, const at::Tensor& residual,
                                  const BatchNormCall& call);

/// The same values for a second user, whose gradient reaches the layer that made them apart from
/// the first's, so that its kernels add both on their way instead of autograd before it. Whatever
/// no such layer made is returned as it is. From then on the gradient of `y` itself is a part of
/// it: only for who alone holds `y`.
at::Tensor for_second_user(const at::Tensor& y);

/// Normalizes by running statistics, without autograd.
at::Tensor batch_norm_in_evaluation(const at::Tensor& x, const at::Tensor& residual,
                                    const BatchNormCall& call);

}  // namespace lockstep::nn

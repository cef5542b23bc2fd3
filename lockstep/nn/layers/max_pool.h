#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace lockstep::nn {

struct MaxPoolOptions {
  std::int64_t kernel = 2;
  std::int64_t stride = 2;
  std::int64_t padding = 0;
};

/// The largest of each window of pictures [N, C, H, W], as `at::max_pool2d`. On a GPU f32, fp16 and
/// bf16 are computed by kernels of our own, whose gradients have the same bits in every run; those
/// of libtorch have not.
at::Tensor max_pool(const at::Tensor& x, const MaxPoolOptions& options);

}  // namespace lockstep::nn

#pragma once

#include <torch/nn/module.h>
#include <torch/nn/pimpl.h>

#include <cstdint>
#include <vector>

#include "lockstep/nn/layers/batch_norm.h"
#include "lockstep/nn/layers/convolution.h"

namespace lockstep::nn {

/// How the input of a residual block reaches its end where the block changes the shape.
enum class Shortcut {
  Projection,  ///< a 1x1 convolution and batch norm, as torchvision has it
  ZeroPadded,  ///< every second pixel, and zeros for the new channels: no weights
};

/// Convolutions with batch norm, the last of which adds the block's input before its ReLU. Children
/// are named as in torchvision: conv1, bn1, conv2, … and downsample.0 and .1.
class ResidualBlockImpl : public torch::nn::Module {
 public:
  /// The first convolution that is wider than 1x1 takes the stride, as in torchvision.
  ResidualBlockImpl(const std::vector<ConvolutionOptions>& convolutions, Shortcut shortcut);

  at::Tensor forward(at::Tensor input);

 private:
  at::Tensor carry(const at::Tensor& input);

  struct Layer {
    Convolution convolution;
    BatchNorm norm;
  };

  std::vector<Layer> layers_;
  std::int64_t stride_ = 1;
  std::int64_t new_channels_ = 0;
  std::vector<Layer> projection_;  // none or one
};
TORCH_MODULE(ResidualBlock);

}  // namespace lockstep::nn

#include "lockstep/nn/zoo/residual_block.h"

#include <fmt/format.h>
#include <torch/types.h>

#include "lockstep/nn/layers/batch_norm_function.h"

namespace lockstep::nn {

ResidualBlockImpl::ResidualBlockImpl(const std::vector<ConvolutionOptions>& convolutions,
                                     Shortcut shortcut)
    : new_channels_(convolutions.back().out - convolutions.front().in) {
  int number = 1;
  for (const auto& options : convolutions) {
    layers_.push_back({register_module(fmt::format("conv{}", number), Convolution(options)),
                       register_module(fmt::format("bn{}", number), BatchNorm(options.out))});
    stride_ *= options.stride;
    ++number;
  }
  const bool keeps_shape = stride_ == 1 && new_channels_ == 0;
  if (keeps_shape || shortcut == Shortcut::ZeroPadded) return;
  auto downsample =
      register_module("downsample", std::make_shared<torch::nn::Module>("downsample"));
  const ConvolutionOptions projection{convolutions.front().in, convolutions.back().out,
                                      /*kernel=*/1, stride_};
  projection_.push_back({downsample->register_module("0", Convolution(projection)),
                         downsample->register_module("1", BatchNorm(projection.out))});
}

at::Tensor ResidualBlockImpl::carry(const at::Tensor& input) {
  if (!projection_.empty()) {
    auto& [convolution, norm] = projection_.front();
    return norm->forward(convolution(input));
  }
  if (stride_ == 1 && new_channels_ == 0) return input;
  // A mean over windows of one pixel picks pixels, and is faster both ways than slices.
  const auto thinned = at::avg_pool2d(input, 1, stride_);
  return at::constant_pad_nd(thinned, {0, 0, 0, 0, 0, new_channels_}, 0);
}

at::Tensor ResidualBlockImpl::forward(at::Tensor input) {
  // Whoever else holds the input may ask for its gradient, and would see one of two parts.
  const bool is_ours = input.use_count() == 1;
  const auto carried = carry(is_ours ? for_second_user(input) : input);
  auto activation = std::move(input);
  for (std::size_t i = 0; i + 1 < layers_.size(); ++i) {
    activation = layers_[i].norm->forward_relu(layers_[i].convolution(activation));
  }
  auto& [convolution, norm] = layers_.back();
  return norm->forward_add_relu(convolution(activation), carried);
}

}  // namespace lockstep::nn

#include "lockstep/nn/layers/convolution.h"

#include <torch/types.h>

#include <cmath>

#include "lockstep/nn/random/fill.h"

namespace lockstep::nn {

ConvolutionImpl::ConvolutionImpl(const ConvolutionOptions& options) : options_(options) {
  ConvolutionImpl::reset();
}

void ConvolutionImpl::reset() {
  const auto& [in, out, kernel, stride] = options_;
  weight = register_parameter(
      "weight", at::empty({out, in, kernel, kernel}, at::kFloat, at::MemoryFormat::ChannelsLast));
}

at::Tensor ConvolutionImpl::forward(const at::Tensor& input) {
  return at::conv2d(input, weight, {}, options_.stride, options_.kernel / 2);
}

LinearImpl::LinearImpl(std::int64_t in, std::int64_t out) : in_(in), out_(out) {
  LinearImpl::reset();
}

void LinearImpl::reset() {
  weight = register_parameter("weight", at::empty({out_, in_}));
  bias = register_parameter("bias", at::empty({out_}));
}

at::Tensor LinearImpl::forward(const at::Tensor& input) {
  return at::linear(input, weight, bias);
}

void initialize(torch::nn::Module& module, std::uint64_t seed) {
  for (const auto& entry : module.named_modules(std::string(), /*include_self=*/false)) {
    const auto stream = [&](const char* which) {
      return weights_stream(seed, entry.key() + "." + which);
    };
    if (const auto* convolution = entry.value()->as<ConvolutionImpl>()) {
      const auto& weight = convolution->weight;
      const auto fan_out = static_cast<double>(weight.numel() / weight.size(1));
      fill_normal(weight, std::sqrt(2 / fan_out), stream("weight"));
    } else if (const auto* linear = entry.value()->as<LinearImpl>()) {
      const auto bound = 1 / std::sqrt(static_cast<double>(linear->weight.size(1)));
      fill_uniform(linear->weight, bound, stream("weight"));
      fill_uniform(linear->bias, bound, stream("bias"));
    }
  }
}

}  // namespace lockstep::nn

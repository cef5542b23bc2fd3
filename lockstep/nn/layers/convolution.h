#pragma once

#include <torch/nn/cloneable.h>
#include <torch/nn/pimpl.h>

#include <cstdint>

namespace lockstep::nn {

struct ConvolutionOptions {
  std::int64_t in = 0;
  std::int64_t out = 0;
  std::int64_t kernel = 3;
  std::int64_t stride = 1;
};

/// A square convolution without bias that keeps the size of its input (divided by its stride). Its
/// weights lie channels-last, as the kernels want them, and are left unset: `initialize` sets them.
class ConvolutionImpl : public torch::nn::Cloneable<ConvolutionImpl> {
 public:
  explicit ConvolutionImpl(const ConvolutionOptions& options);

  void reset() override;
  at::Tensor forward(const at::Tensor& input);

  at::Tensor weight;

 private:
  ConvolutionOptions options_;
};
TORCH_MODULE(Convolution);

/// `torch::nn::Linear`, with weights left unset: `initialize` sets them.
class LinearImpl : public torch::nn::Cloneable<LinearImpl> {
 public:
  LinearImpl(std::int64_t in, std::int64_t out);

  void reset() override;
  at::Tensor forward(const at::Tensor& input);

  at::Tensor weight;
  at::Tensor bias;

 private:
  std::int64_t in_;
  std::int64_t out_;
};
TORCH_MODULE(Linear);

/// Sets the weights of every `Convolution` and `Linear` below `module` as torchvision does for
/// ResNets, from a seed: convolutions by He's normal distribution over what goes out, linear layers
/// evenly within 1 / sqrt(in).
void initialize(torch::nn::Module& module, std::uint64_t seed);

}  // namespace lockstep::nn

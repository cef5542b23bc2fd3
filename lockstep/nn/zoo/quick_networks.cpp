#include "lockstep/nn/zoo/quick_networks.h"

#include <torch/types.h>

#include <string>

#include "lockstep/nn/layers/batch_norm.h"
#include "lockstep/nn/layers/convolution.h"
#include "lockstep/nn/layers/dropout.h"
#include "lockstep/nn/layers/max_pool.h"
#include "lockstep/nn/zoo/pooled_head.h"

namespace lockstep::nn {
namespace {

/// What a convolution's output goes through.
enum class Then { Pool, Drop };

constexpr double kDropped = 0.1;

void add_convolution(Network& net, const std::string& block, int number, std::int64_t in,
                     std::int64_t out, Then then) {
  const auto conv_name = "conv" + std::to_string(number);
  const auto norm_name = "bn" + std::to_string(number);
  auto convolution = net.register_module(conv_name, Convolution(ConvolutionOptions{in, out}));
  auto norm = net.register_module(norm_name, BatchNorm(out));
  const auto dropout = Dropout(kDropped);
  if (then == Then::Drop) net.register_module("dropout", dropout);
  net.add_block({block, {conv_name, norm_name}, [=](const at::Tensor& input) {
                   const auto activation = norm->forward_relu(convolution->forward(input));
                   return then == Then::Pool ? max_pool(activation, {.kernel = 2, .stride = 2})
                                             : Dropout(dropout)->forward(activation);
                 }});
}

void add_hidden(Network& net, const std::string& block, const std::string& name, std::int64_t in,
                std::int64_t out) {
  auto linear = net.register_module(name, Linear(in, out));
  net.add_block({block, {name}, [linear](const at::Tensor& input) {
                   return at::relu(linear->forward(input.flatten(1)));
                 }});
}

}  // namespace

std::shared_ptr<Network> convnet(std::int64_t classes, const ZooOptions& options) {
  const auto channels = options.channels;
  auto net = std::make_shared<Network>([classes, channels](Network& described) {
    described.set_input({.channels = channels, .height = 4, .width = 4});
    add_convolution(described, "stem", 1, channels, 32, Then::Pool);
    add_convolution(described, "layer1", 2, 32, 64, Then::Pool);
    add_convolution(described, "layer2", 3, 64, 128, Then::Drop);
    add_pooled_head(described, 128, classes);
  });
  initialize(*net, options.seed);
  return net;
}

std::shared_ptr<Network> mlp(std::int64_t classes, const PictureSize& size,
                             const ZooOptions& options) {
  const auto channels = options.channels;
  auto net = std::make_shared<Network>([classes, channels, size](Network& described) {
    described.set_input(
        {.channels = channels, .height = size.height, .width = size.width, .exact = true});
    add_hidden(described, "stem", "fc1", channels * size.height * size.width, 256);
    add_hidden(described, "hidden", "fc2", 256, 128);
    auto head = described.register_module("fc3", Linear(128, classes));
    described.add_block(
        {"head", {"fc3"}, [head](const at::Tensor& input) { return head->forward(input); }});
  });
  initialize(*net, options.seed);
  return net;
}

}  // namespace lockstep::nn

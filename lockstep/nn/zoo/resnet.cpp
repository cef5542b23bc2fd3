#include "lockstep/nn/zoo/resnet.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <string>
#include <vector>

#include "lockstep/nn/layers/batch_norm.h"
#include "lockstep/nn/layers/convolution.h"
#include "lockstep/nn/layers/max_pool.h"
#include "lockstep/nn/random/fill.h"
#include "lockstep/nn/zoo/pooled_head.h"
#include "lockstep/nn/zoo/residual_block.h"

namespace lockstep::nn {
namespace {

enum class Depth { Basic, Bottleneck };

struct Stem {
  std::int64_t kernel;
  std::int64_t stride;
  bool has_pool;
};

/// All that tells one ResNet from another.
struct Plan {
  Stem stem;
  std::int64_t width;       ///< channels of the first stage; each further one has twice as many
  std::vector<int> blocks;  ///< in each stage
  Depth depth;
  Shortcut shortcut;
};

constexpr Stem kForLargePictures{.kernel = 7, .stride = 2, .has_pool = true};
constexpr Stem kForSmallPictures{.kernel = 3, .stride = 1, .has_pool = false};

Plan torchvision_plan(std::vector<int> blocks, Depth depth) {
  return {kForLargePictures, 64, std::move(blocks), depth, Shortcut::Projection};
}

Plan cifar_plan(int blocks) {
  return {kForSmallPictures, 16, {blocks, blocks, blocks}, Depth::Basic, Shortcut::ZeroPadded};
}

std::int64_t expansion(Depth depth) {
  return depth == Depth::Bottleneck ? 4 : 1;
}

std::vector<ConvolutionOptions> convolutions(Depth depth, std::int64_t in, std::int64_t width,
                                             std::int64_t stride) {
  if (depth == Depth::Basic) return {{in, width, 3, stride}, {width, width, 3, 1}};
  return {{in, width, 1, 1}, {width, width, 3, stride}, {width, width * 4, 1, 1}};
}

void add_stem(Network& net, const Plan& plan, std::int64_t channels) {
  const auto& [kernel, stride, has_pool] = plan.stem;
  auto conv1 = net.register_module(
      "conv1", Convolution(ConvolutionOptions{channels, plan.width, kernel, stride}));
  auto bn1 = net.register_module("bn1", BatchNorm(plan.width));
  net.add_block({"stem", {"conv1", "bn1"}, [=, pool = has_pool](const at::Tensor& input) {
                   const auto activation = bn1->forward_relu(conv1->forward(input));
                   return pool ? max_pool(activation, {.kernel = 3, .stride = 2, .padding = 1})
                               : activation;
                 }});
}

/// Adds one stage and returns the channels that leave it.
std::int64_t add_stage(Network& net, const Plan& plan, std::size_t stage, std::int64_t in) {
  const auto name = fmt::format("layer{}", stage + 1);
  auto layer = net.register_module(name, std::make_shared<torch::nn::Module>(name));
  const auto width = plan.width << stage;
  for (int i = 0; i < plan.blocks[stage]; ++i) {
    const std::int64_t stride = stage > 0 && i == 0 ? 2 : 1;
    auto block = layer->register_module(
        std::to_string(i),
        ResidualBlock(convolutions(plan.depth, in, width, stride), plan.shortcut));
    const auto block_name = fmt::format("{}.{}", name, i);
    net.add_block({block_name, {block_name}, [block](at::Tensor input) {
                     return block->forward(std::move(input));
                   }});
    in = width * expansion(plan.depth);
  }
  return in;
}

std::shared_ptr<Network> make(const Plan& plan, std::int64_t classes, const ZooOptions& options) {
  const auto channels = options.channels;
  auto net = std::make_shared<Network>([plan, classes, channels](Network& described) {
    described.set_input({.channels = channels});
    add_stem(described, plan, channels);
    auto width = plan.width;
    for (std::size_t stage = 0; stage < plan.blocks.size(); ++stage) {
      width = add_stage(described, plan, stage, width);
    }
    add_pooled_head(described, width, classes);
  });
  initialize(*net, options.seed);
  return net;
}

/// Shortcuts without weights let activations grow with depth. With the first weights of `fc` small
/// (Goyal et al., "Accurate, large minibatch SGD", 5.1), a network of any depth begins by guessing.
std::shared_ptr<Network> make_for_cifar(int blocks, std::int64_t classes,
                                        const ZooOptions& options) {
  auto net = make(cifar_plan(blocks), classes, options);
  const auto parameters = net->named_parameters();
  fill_normal(parameters["fc.weight"], 0.01, weights_stream(options.seed, "fc.weight"));
  const torch::NoGradGuard no_grad;
  parameters["fc.bias"].zero_();
  return net;
}

}  // namespace

std::shared_ptr<Network> resnet18(std::int64_t classes, const ZooOptions& options) {
  return make(torchvision_plan({2, 2, 2, 2}, Depth::Basic), classes, options);
}
std::shared_ptr<Network> resnet34(std::int64_t classes, const ZooOptions& options) {
  return make(torchvision_plan({3, 4, 6, 3}, Depth::Basic), classes, options);
}
std::shared_ptr<Network> resnet50(std::int64_t classes, const ZooOptions& options) {
  return make(torchvision_plan({3, 4, 6, 3}, Depth::Bottleneck), classes, options);
}
std::shared_ptr<Network> resnet101(std::int64_t classes, const ZooOptions& options) {
  return make(torchvision_plan({3, 4, 23, 3}, Depth::Bottleneck), classes, options);
}
std::shared_ptr<Network> resnet152(std::int64_t classes, const ZooOptions& options) {
  return make(torchvision_plan({3, 8, 36, 3}, Depth::Bottleneck), classes, options);
}

std::shared_ptr<Network> resnet20(std::int64_t classes, const ZooOptions& options) {
  return make_for_cifar(3, classes, options);
}
std::shared_ptr<Network> resnet32(std::int64_t classes, const ZooOptions& options) {
  return make_for_cifar(5, classes, options);
}
std::shared_ptr<Network> resnet44(std::int64_t classes, const ZooOptions& options) {
  return make_for_cifar(7, classes, options);
}
std::shared_ptr<Network> resnet56(std::int64_t classes, const ZooOptions& options) {
  return make_for_cifar(9, classes, options);
}
std::shared_ptr<Network> resnet110(std::int64_t classes, const ZooOptions& options) {
  return make_for_cifar(18, classes, options);
}

}  // namespace lockstep::nn

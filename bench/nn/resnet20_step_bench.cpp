// A whole step of ResNet-20 (batch 64, one thread, channels-last), with this layer and with
// libtorch's operations in its place, in turn. `resnet20_step_bench [threads]`.
#include <fmt/format.h>
#include <torch/torch.h>

#include <cstdlib>

#include "bench/nn/timing.h"
#include "lockstep/nn/compute_threads.h"
#include "lockstep/nn/layers/batch_norm.h"

namespace {

using torch::Tensor;

/// One set of weights, two ways through it.
enum class Way { Ours, Libtorchs };

struct ConvNorm : torch::nn::Module {
  ConvNorm(std::int64_t in, std::int64_t out, std::int64_t stride)
      : conv(register_module(
            "conv",
            torch::nn::Conv2d(
                torch::nn::Conv2dOptions(in, out, 3).stride(stride).padding(1).bias(false)))),
        norm(register_module("norm", lockstep::nn::BatchNorm(out))) {
    conv->weight.set_data(conv->weight.contiguous(at::MemoryFormat::ChannelsLast));
  }

  Tensor forward(const Tensor& input, const Tensor& residual, Way way) {
    const auto x = conv->forward(input);
    if (way == Way::Ours) {
      return residual.defined() ? norm->forward_add_relu(x, residual) : norm->forward_relu(x);
    }
    auto y = torch::batch_norm(x, norm->weight, norm->bias, norm->running_mean, norm->running_var,
                               true, 0.1, 1e-5, false);
    if (residual.defined()) y.add_(residual);
    return y.relu_();
  }

  torch::nn::Conv2d conv;
  lockstep::nn::BatchNorm norm;
};

struct ResNet20 : torch::nn::Module {
  ResNet20() {
    add(3, 16, 1);
    for (std::int64_t width : {16, 32, 64}) {
      for (int block = 0; block < 3; ++block) {
        const bool shrinks = width > 16 && block == 0;
        add(shrinks ? width / 2 : width, width, shrinks ? 2 : 1);
        add(width, width, 1);
      }
    }
    fc = register_module("fc", torch::nn::Linear(64, 10));
  }

  void add(std::int64_t in, std::int64_t out, std::int64_t stride) {
    layers.push_back(register_module("layer" + std::to_string(layers.size()),
                                     std::make_shared<ConvNorm>(in, out, stride)));
  }

  Tensor forward(const Tensor& images, Way way) {
    auto x = layers[0]->forward(images, {}, way);
    for (std::size_t i = 1; i < layers.size(); i += 2) {
      const auto inner = layers[i]->forward(x, {}, way);
      x = layers[i + 1]->forward(inner, shortcut(x, inner), way);
    }
    return fc->forward(x.mean({2, 3}));
  }

  /// Every other pixel, and channels of zeros: the shortcut without parameters.
  static Tensor shortcut(const Tensor& x, const Tensor& inner) {
    if (x.sizes() == inner.sizes()) return x;
    const auto pixels = torch::avg_pool2d(x, 2);
    return torch::cat({pixels, torch::zeros_like(pixels)}, 1);
  }

  std::vector<std::shared_ptr<ConvNorm>> layers;
  torch::nn::Linear fc = nullptr;
};

float step(ResNet20& model, const Tensor& images, const Tensor& labels, Way way) {
  model.zero_grad();
  const auto loss = torch::cross_entropy_loss(model.forward(images, way), labels);
  loss.backward();
  return loss.item<float>();
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::bench::keep_memory();
  lockstep::nn::use_compute_threads(argc > 1 ? std::atoi(argv[1]) : 1);
  const auto only = argc > 2 ? std::string(argv[2]) : "";
  torch::manual_seed(1);
  ResNet20 model;
  const auto images = torch::randn({64, 3, 32, 32}).contiguous(at::MemoryFormat::ChannelsLast);
  const auto labels = torch::randint(0, 10, {64}, at::kLong);
  const auto ours = step(model, images, labels, Way::Ours);
  const auto libtorchs = step(model, images, labels, Way::Libtorchs);
  fmt::print("loss: ours {:.6f}, libtorch's {:.6f}\n", ours, libtorchs);
  if (std::abs(ours - libtorchs) > 1e-4F) return 1;
  std::vector<double> our_times;
  std::vector<double> libtorch_times;
  for (int i = 0; i < 25; ++i) {
    if (only != "torch") {
      our_times.push_back(
          lockstep::bench::milliseconds_of([&] { step(model, images, labels, Way::Ours); }));
    }
    if (only != "ours") {
      libtorch_times.push_back(
          lockstep::bench::milliseconds_of([&] { step(model, images, labels, Way::Libtorchs); }));
    }
  }
  for (auto* times : {&our_times, &libtorch_times}) {
    if (times->empty()) continue;
    fmt::print("{:10} median {:.1f} ms, fastest {:.1f} ms\n",
               times == &our_times ? "ours" : "libtorch", lockstep::bench::median(*times),
               *std::min_element(times->begin(), times->end()));
  }
}

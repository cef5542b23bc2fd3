// Batch norm with what follows it, beside libtorch's own operations channels-last: the shapes of
// ResNet-20 and ResNet-50, forward and backward, verified before they are timed.
#include <fmt/format.h>
#include <torch/torch.h>

#include <cstdlib>

#include "bench/nn/timing.h"
#include "lockstep/nn/compute_threads.h"
#include "lockstep/nn/layers/batch_norm.h"

namespace {

using lockstep::bench::median;
using lockstep::bench::milliseconds_of;

enum class Form { Norm, NormRelu, NormAddRelu };
constexpr std::array kForms{Form::Norm, Form::NormRelu, Form::NormAddRelu};
constexpr std::array kNames{"norm", "norm+relu", "norm+add+relu"};

torch::Tensor picture(at::IntArrayRef shape) {
  return torch::randn(shape).contiguous(at::MemoryFormat::ChannelsLast);
}

/// One call of the layer: its inputs, its output, and how it is made.
struct Case {
  explicit Case(at::IntArrayRef shape)
      : layer(shape[1]),
        x(picture(shape).requires_grad_()),
        residual(picture(shape).requires_grad_()),
        dy(picture(shape)) {}

  torch::Tensor ours(Form form) {
    if (form == Form::Norm) return layer->forward(x);
    if (form == Form::NormRelu) return layer->forward_relu(x);
    return layer->forward_add_relu(x, residual);
  }

  torch::Tensor libtorchs(Form form) {
    auto y = torch::batch_norm(x, layer->weight, layer->bias, layer->running_mean,
                               layer->running_var, true, 0.1, 1e-5, false);
    if (form == Form::NormAddRelu) y.add_(residual);
    if (form != Form::Norm) y.relu_();
    return y;
  }

  void clear() {
    for (auto* tensor : {&x, &residual, &layer->weight, &layer->bias}) {
      tensor->mutable_grad() = torch::Tensor();
    }
  }

  lockstep::nn::BatchNorm layer;
  torch::Tensor x;
  torch::Tensor residual;
  torch::Tensor dy;
};

struct Times {
  std::vector<double> forward;
  std::vector<double> backward;
};

/// What a convolution would just have written is written just before: no colder, no warmer.
void run_once(Case& one, const std::function<torch::Tensor()>& layer, Times& times) {
  const auto written = torch::rand_like(one.dy);
  one.clear();
  {
    const torch::NoGradGuard no_grad;
    one.residual.copy_(written);
    one.x.copy_(written);
  }
  torch::Tensor y;
  times.forward.push_back(milliseconds_of([&] { y = layer(); }));
  one.dy.copy_(written);
  times.backward.push_back(milliseconds_of([&] { y.backward(one.dy); }));
}

/// A value at the edge of the ReLU may fall on either side of it, so single ones may differ by
/// much.
bool is_close(const torch::Tensor& found, const torch::Tensor& expected) {
  return (found - expected).norm().item<double>() < 1e-2 * expected.norm().item<double>();
}

void verify(Case& one, Form form) {
  one.clear();
  const auto ours = one.ours(form);
  ours.backward(one.dy);
  const auto dx = one.x.grad();
  const auto dweight = one.layer->weight.grad();
  one.clear();
  const auto libtorchs = one.libtorchs(form);
  libtorchs.backward(one.dy);
  if (is_close(ours, libtorchs) && is_close(dx, one.x.grad()) &&
      is_close(dweight, one.layer->weight.grad())) {
    return;
  }
  fmt::print("batch_norm_bench: results differ from libtorch's\n");
  std::exit(1);
}

void measure(at::IntArrayRef shape, Form form, int rounds) {
  Case one(shape);
  verify(one, form);
  Times ours;
  Times libtorchs;
  for (int i = 0; i < rounds; ++i) {
    run_once(
        one, [&] { return one.ours(form); }, ours);
    run_once(
        one, [&] { return one.libtorchs(form); }, libtorchs);
  }
  const auto o_f = median(ours.forward), o_b = median(ours.backward);
  const auto t_f = median(libtorchs.forward), t_b = median(libtorchs.backward);
  const auto mib = static_cast<double>(one.x.nbytes()) / (1 << 20);
  fmt::print(
      "{:4}x{:4}x{:2}x{:2} {:5.1f} MiB {:14} {:8.3f} {:8.3f} {:6.2f} {:8.3f} {:8.3f} {:6.2f} "
      "{:7.2f}\n",
      shape[0], shape[1], shape[2], shape[3], mib, kNames[static_cast<std::size_t>(form)], o_f, t_f,
      o_f / t_f, o_b, t_b, o_b / t_b, (o_f + o_b) / (t_f + t_b));
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::bench::keep_memory();
  lockstep::nn::use_compute_threads(argc > 1 ? std::atoi(argv[1]) : 1);
  fmt::print("{:26} {:14} {:>24} {:>24} {:>7}\n", "shape", "layer", "forward ms: ours, torch",
             "backward ms: ours, torch", "both");
  const std::vector<std::vector<std::int64_t>> shapes{{64, 16, 32, 32}, {64, 32, 16, 16},
                                                      {64, 64, 8, 8},   {8, 256, 56, 56},
                                                      {8, 512, 28, 28}, {8, 2048, 7, 7}};
  for (const auto& shape : shapes) {
    for (const auto form : kForms) measure(shape, form, 31);
  }
}

#include "lockstep/nn/graph_input.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/types.h>

#include <mutex>
#include <utility>

#include "lockstep/base/error.h"

namespace lockstep::nn {

using torch::autograd::Node;
using torch::autograd::variable_list;

/// Where a graph ends, as libtorch's AccumulateGrad; but that one is for leaves, which may not be
/// changed in place, and copies a gradient into the leaf's memory format.
class CaughtGradient : public Node {
 public:
  variable_list apply(variable_list&& arriving) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    // Whoever asks twice would get the last one alone, or a sum that nobody meant.
    if (std::exchange(has_run_, true)) {
      throw Error(ErrorKind::Bug, "graph: a second backward pass arrives at the same input");
    }
    gradient_ = std::move(arriving[0]);
    return {};
  }
  std::string name() const override { return "lockstep::nn::CaughtGradient"; }

  at::Tensor take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::move(gradient_);
  }

 private:
  at::Tensor gradient_;
  bool has_run_ = false;
};

namespace {

/// Hands on a gradient that it alone holds: what begins a backward pass is held until it ends.
class HandedOnGradient : public Node {
 public:
  HandedOnGradient(torch::autograd::Edge to, at::Tensor gradient)
      : Node(torch::autograd::edge_list{std::move(to)}), gradient_(std::move(gradient)) {}

  variable_list apply(variable_list&& /*arriving*/) override { return {std::move(gradient_)}; }
  std::string name() const override { return "lockstep::nn::HandedOnGradient"; }

 private:
  at::Tensor gradient_;
};

}  // namespace

GraphInput::GraphInput(const at::Tensor& activation, bool wants_gradient)
    : tensor_(activation.detach()) {
  if (!wants_gradient || !torch::autograd::isDifferentiableType(tensor_.scalar_type())) return;
  caught_ = std::shared_ptr<CaughtGradient>(new CaughtGradient(), torch::autograd::deleteNode);
  torch::autograd::set_history(tensor_, caught_);
}

at::Tensor GraphInput::gradient() {
  return caught_ == nullptr ? at::Tensor() : caught_->take();
}

void run_backward(at::Tensor output, at::Tensor gradient) {
  const std::shared_ptr<HandedOnGradient> begin(
      new HandedOnGradient(torch::autograd::impl::gradient_edge(output), std::move(gradient)),
      torch::autograd::deleteNode);
  output.reset();
  auto root = at::zeros({});
  torch::autograd::set_history(root, begin);
  root.backward();
}

}  // namespace lockstep::nn

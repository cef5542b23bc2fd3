#include "lockstep/nn/gradient_hook.h"

#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include <utility>

namespace lockstep::nn {
namespace {

class Caller final : public torch::autograd::FunctionPostHook {
 public:
  explicit Caller(std::function<void()> action) : action_(std::move(action)) {}

  torch::autograd::variable_list operator()(const torch::autograd::variable_list& outputs,
                                            const torch::autograd::variable_list&) override {
    action_();
    return outputs;
  }

 private:
  std::function<void()> action_;
};

}  // namespace

GradientHook::GradientHook(const at::Tensor& parameter, std::function<void()> action)
    : node_(torch::autograd::impl::grad_accumulator(parameter)),
      key_(node_->add_post_hook(std::make_unique<Caller>(std::move(action)))) {}

GradientHook::GradientHook(GradientHook&& other) noexcept = default;

GradientHook::~GradientHook() {
  if (node_) node_->del_post_hook(key_);
}

}  // namespace lockstep::nn

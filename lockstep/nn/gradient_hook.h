#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>

namespace torch::autograd {
struct Node;
}

namespace lockstep::nn {

/// Calls `action` each time that a backward pass has added all it has to a parameter's gradient, on
/// the thread of that pass, as long as this lives.
class GradientHook {
 public:
  GradientHook(const at::Tensor& parameter, std::function<void()> action);
  ~GradientHook();
  GradientHook(GradientHook&& other) noexcept;
  GradientHook& operator=(GradientHook&&) = delete;

 private:
  std::shared_ptr<torch::autograd::Node> node_;  ///< what adds to the gradient
  std::uintptr_t key_ = 0;
};

}  // namespace lockstep::nn

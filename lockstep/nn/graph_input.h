#pragma once

#include <ATen/core/Tensor.h>

#include <memory>

namespace lockstep::nn {

class CaughtGradient;

/// A tensor with which a graph of its own begins: the gradient that arrives at it is caught, and
/// goes no further. So a part of a model goes forward and backward by itself, with the bits that it
/// has within the whole.
///
/// Nothing is copied. The tensor shares memory with what it was made of, and autograd's count of
/// changes in place too: a change that breaks either graph is noticed. It is no leaf, so it may be
/// changed in place, and its gradient arrives in whatever memory format it was computed.
///
/// Of one thread at a time. Errors: a second backward pass through the graph throws `Bug`, from
/// within the pass.
class GraphInput {
 public:
  /// No gradient is caught where none is wanted, nor of a tensor that has none, as one of integers.
  GraphInput(const at::Tensor& activation, bool wants_gradient);

  /// The tensor to compute with, moved out: once.
  at::Tensor take() noexcept { return std::move(tensor_); }

  /// After a backward pass, moved out; undefined where none arrived.
  at::Tensor gradient();

 private:
  at::Tensor tensor_;
  std::shared_ptr<CaughtGradient> caught_;  ///< of the graph; none where nothing is caught
};

/// Goes backward from `output`, which has this gradient. Who moves them in gives them up: the
/// memory of a gradient that nobody else holds is used again on the way, as it is within a graph.
void run_backward(at::Tensor output, at::Tensor gradient);

}  // namespace lockstep::nn

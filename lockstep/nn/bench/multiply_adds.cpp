#include "lockstep/nn/bench/multiply_adds.h"

#include <ATen/record_function.h>
#include <torch/types.h>

#include <string_view>

namespace lockstep::nn {
namespace {

thread_local std::int64_t counted = 0;

std::int64_t product_of_matrices(const at::Tensor& left, const at::Tensor& right) {
  return left.numel() * right.size(-1);
}

/// input, weight, bias, stride, padding, dilation, transposed, …
std::int64_t of_convolution(c10::ArrayRef<const c10::IValue> inputs) {
  const auto input = inputs[0].toTensor();
  const auto weight = inputs[1].toTensor();
  if (inputs[6].toBool()) return input.numel() * (weight.numel() / weight.size(0));
  const auto stride = inputs[3].toIntVector();
  const auto padding = inputs[4].toIntVector();
  const auto dilation = inputs[5].toIntVector();
  std::int64_t outputs = input.size(0);
  for (std::size_t i = 0; i < stride.size(); ++i) {
    const auto axis = static_cast<std::int64_t>(i) + 2;
    const auto reach = dilation[i] * (weight.size(axis) - 1) + 1;
    outputs *= (input.size(axis) + 2 * padding[i] - reach) / stride[i] + 1;
  }
  return outputs * weight.numel();
}

std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& function) {
  const std::string_view name = function.name();
  const auto inputs = function.inputs();
  if (name == "aten::convolution") {
    counted += of_convolution(inputs);
  } else if (name == "aten::mm" || name == "aten::bmm") {
    counted += product_of_matrices(inputs[0].toTensor(), inputs[1].toTensor());
  } else if (name == "aten::addmm" || name == "aten::baddbmm") {
    counted += product_of_matrices(inputs[1].toTensor(), inputs[2].toTensor());
  }
  return nullptr;
}

}  // namespace

std::int64_t count_multiply_adds(const std::function<void()>& action) {
  counted = 0;
  const auto handle = at::addThreadLocalCallback(
      at::RecordFunctionCallback(&count).needsInputs(true).scopes({at::RecordScope::FUNCTION}));
  try {
    action();
  } catch (...) {
    at::removeCallback(handle);
    throw;
  }
  at::removeCallback(handle);
  return counted;
}

}  // namespace lockstep::nn

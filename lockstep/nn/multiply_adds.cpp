#include "lockstep/nn/multiply_adds.h"

#include <ATen/record_function.h>
#include <torch/types.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace lockstep::nn {
namespace {

thread_local std::int64_t counted = 0;

std::int64_t product_of_matrices(const at::Tensor& left, const at::Tensor& right) {
  return left.numel() * right.size(-1);
}

/// A setting for each axis, or one for all.
std::int64_t at_axis(const std::vector<std::int64_t>& setting, std::size_t axis) {
  return setting[std::min(axis, setting.size() - 1)];
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
  for (std::size_t axis = 0; static_cast<std::int64_t>(axis) + 2 < weight.dim(); ++axis) {
    const auto dimension = static_cast<std::int64_t>(axis) + 2;
    const auto reach = at_axis(dilation, axis) * (weight.size(dimension) - 1) + 1;
    const auto room = input.size(dimension) + 2 * at_axis(padding, axis) - reach;
    outputs *= room / at_axis(stride, axis) + 1;
  }
  return outputs * weight.numel();
}

std::unique_ptr<at::ObserverContext> count(const at::RecordFunction& function) {
  const std::string_view name = function.name();
  const auto inputs = function.inputs();
  if (name == "aten::_convolution") {  // every convolution calls it, a traced one begins with it
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

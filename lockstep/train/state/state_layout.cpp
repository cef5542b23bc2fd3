#include "lockstep/train/state/state_layout.h"

#include <fmt/format.h>
#include <torch/types.h>

#include "lockstep/base/error.h"
#include "lockstep/comm/sharded_update.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kLine = 64;

std::int64_t aligned(std::int64_t count, std::int64_t unit) {
  return (count + unit - 1) / unit * unit;
}

/// The strides of the tensor itself where it has no gaps; else those of row-major order.
std::vector<std::int64_t> dense_strides(const at::Tensor& tensor) {
  return tensor.is_non_overlapping_and_dense() ? tensor.strides().vec()
                                               : at::empty(tensor.sizes()).strides().vec();
}

PlacedTensor placed(const nn::Slot& slot, std::size_t index, std::int64_t first) {
  const auto& tensor = slot.tensor();
  return {index, slot.name(), tensor.sizes().vec(), dense_strides(tensor), first, tensor.numel()};
}

void check_type(const nn::Slot& slot, const char* what) {
  if (!slot.tensor().device().is_cpu() || slot.tensor().layout() != at::kStrided) {
    throw Error(ErrorKind::Options,
                fmt::format("model: expected dense {} in the host's memory, found '{}' on {}", what,
                            slot.name(), slot.tensor().device().str()),
                "module->to(torch::kCPU)");
  }
  if (slot.tensor().scalar_type() == at::kFloat) return;
  throw Error(ErrorKind::Options,
              fmt::format("model: expected {} of f32, found '{}' of {}", what, slot.name(),
                          c10::toString(slot.tensor().scalar_type())),
              "module->to(torch::kFloat); 16-bit training keeps its weights in f32");
}

std::vector<optimizer::ParameterSettings> settings_of(const std::vector<nn::Slot>& slots,
                                                      const Optimizer& optimizer) {
  std::vector<optimizer::ParameterFacts> facts;
  for (const auto& slot : slots) {
    if (slot.role == nn::TensorRole::Parameter) facts.push_back({slot.names, slot.tensor().dim()});
  }
  return optimizer::settings_of(optimizer, facts);
}

void add_blocks(WeightLayout& layout, std::int64_t first, std::int64_t count) {
  for (std::int64_t done = 0; done < count; done += comm::ShardedUpdate::kBlock) {
    layout.blocks.push_back(first + done);
  }
}

void add_parameter(WeightLayout& layout, const nn::Slot& slot, std::size_t index,
                   const optimizer::ParameterSettings& settings) {
  check_type(slot, "parameters");
  constexpr std::int64_t kUnit = kLine / static_cast<std::int64_t>(sizeof(float));
  if (settings.frozen || !slot.tensor().requires_grad()) {
    layout.frozen.push_back(placed(slot, index, layout.num_frozen));
    layout.num_frozen += aligned(slot.tensor().numel(), kUnit);
    return;
  }
  PlacedParameter parameter{placed(slot, index, layout.num_parameters), settings};
  const auto count = aligned(parameter.count, kUnit);
  parameter.first_block = layout.blocks.size();
  add_blocks(layout, parameter.first, count);
  parameter.num_blocks = layout.blocks.size() - parameter.first_block;
  layout.num_parameters += count;
  layout.parameters.push_back(std::move(parameter));
}

void add_buffer(WeightLayout& layout, const nn::Slot& slot, std::size_t index) {
  if (!slot.tensor().is_floating_point()) {
    layout.integers.push_back(placed(slot, index, layout.integer_bytes));
    layout.integer_bytes += aligned(static_cast<std::int64_t>(slot.tensor().nbytes()), kLine);
    return;
  }
  check_type(slot, "buffers");
  layout.buffers.push_back(placed(slot, index, layout.num_elements));
  const auto count = aligned(slot.tensor().numel(), kLine / std::int64_t{sizeof(float)});
  add_blocks(layout, layout.num_elements, count);
  layout.num_elements += count;
}

}  // namespace

WeightLayout lay_out_weights(const std::vector<nn::Slot>& slots, const Optimizer& optimizer) {
  WeightLayout layout;
  const auto settings = settings_of(slots, optimizer);
  auto next_settings = settings.begin();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].role == nn::TensorRole::Parameter) {
      add_parameter(layout, slots[i], i, *next_settings++);
    }
  }
  if (layout.num_parameters == 0) {
    throw Error(ErrorKind::Options,
                layout.frozen.empty() ? "model: expected parameters to learn, found none"
                                      : "model: every parameter is frozen",
                "register_parameter and register_module tell a module what it is made of");
  }
  layout.num_elements = layout.num_parameters;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (slots[i].role == nn::TensorRole::Buffer) add_buffer(layout, slots[i], i);
  }
  return layout;
}

at::Tensor view_of(const PlacedTensor& placed, const void* base, at::ScalarType type) {
  const auto unit = at::isFloatingType(type) ? static_cast<std::int64_t>(sizeof(float)) : 1;
  // from_blob takes memory that may be written, and most of these tensors are only read.
  auto* data = const_cast<char*>(static_cast<const char*>(base)) + placed.first * unit;
  return at::from_blob(data, placed.sizes, placed.strides, type);
}

StateShape::StateShape(const WeightLayout& layout, int num_states, bool has_average)
    : num_parameters_(static_cast<std::size_t>(layout.num_parameters)),
      num_elements_(static_cast<std::size_t>(layout.num_elements)),
      num_states_(static_cast<std::size_t>(num_states)),
      has_average_(has_average),
      num_counts_(layout.parameters.size()) {
  const auto rows = num_states_ + (has_average ? 1 : 0);
  integers_at_ = (num_elements_ + num_parameters_ * rows) * sizeof(float);
  counts_at_ = integers_at_ + static_cast<std::size_t>(layout.integer_bytes);
  progress_at_ = counts_at_ + num_counts_ * sizeof(std::int64_t);
}

}  // namespace lockstep::train

#include "lockstep/train/backends/gpu/cuda/gpu_state.h"

#include <c10/core/DeviceGuard.h>
#include <torch/types.h>

#include "lockstep/gpu/memory.h"
#include "lockstep/nn/gpu_stream.h"
#include "lockstep/nn/scalar_types.h"

namespace lockstep::train {
namespace {

at::Tensor placed_in(const at::Tensor& row, const PlacedTensor& placed) {
  return row.as_strided(placed.sizes, placed.strides, placed.first);
}

}  // namespace

GpuState::GpuState(const WeightLayout& layout, const StateShape& shape, DataType compute,
                   const at::Device& device)
    : layout_(layout), shape_(shape), compute_(compute) {
  const auto on_device = at::TensorOptions(device);
  bytes_ = at::zeros({static_cast<std::int64_t>(shape.bytes())}, on_device.dtype(at::kByte));
  if (layout.num_frozen > 0) {
    frozen_ = at::zeros({layout.num_frozen}, on_device.dtype(at::kFloat));
  }
  if (compute == DataType::F32) return;
  const auto type = nn::scalar_type_of(compute);
  half_ = at::zeros({layout.num_parameters}, on_device.dtype(type));
  if (frozen_.defined()) frozen_half_ = at::zeros({layout.num_frozen}, on_device.dtype(type));
}

void GpuState::upload(const std::byte* state, const float* frozen) {
  const torch::NoGradGuard no_grad;
  const c10::DeviceGuard guard(device());
  const auto stream = nn::gpu_stream_of(bytes_);
  gpu::copy_to_device(state, data(), shape_.bytes(), stream);
  if (frozen_.defined()) {
    gpu::copy_to_device(frozen, frozen_.data_ptr(), frozen_.nbytes(), stream);
  }
  if (half_.defined()) half_.copy_(numbers().narrow(0, 0, layout_.num_parameters));
  if (frozen_half_.defined()) frozen_half_.copy_(frozen_);
  gpu::wait_for(stream);
}

void GpuState::refresh(const std::byte* state) {
  const torch::NoGradGuard no_grad;
  const c10::DeviceGuard guard(device());
  const auto stream = nn::gpu_stream_of(bytes_);
  gpu::copy_to_device(state, data(), numbers().nbytes(), stream);
  const auto whole = integers();
  gpu::copy_to_device(shape_.integers(state), whole.data_ptr(), whole.nbytes(), stream);
  if (half_.defined()) half_.copy_(numbers().narrow(0, 0, layout_.num_parameters));
}

at::Tensor GpuState::floats(std::int64_t first, std::int64_t count) const {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(float));
  return bytes_.narrow(0, first * kBytes, count * kBytes).view(at::kFloat);
}

at::Tensor GpuState::average() const {
  const auto* const begin = reinterpret_cast<const float*>(data());
  return floats(shape_.average(data()).data() - begin, layout_.num_parameters);
}

at::Tensor GpuState::integers() const {
  return bytes_.narrow(0, shape_.integers(data()) - data(), layout_.integer_bytes);
}

at::Tensor GpuState::parameter(const PlacedTensor& placed) const {
  return placed_in(is_half(placed) ? half_ : numbers(), placed);
}

at::Tensor GpuState::frozen(const PlacedTensor& placed) const {
  return placed_in(is_half(placed) ? frozen_half_ : frozen_, placed);
}

at::Tensor GpuState::averaged(const PlacedTensor& placed) const {
  const auto type = is_half(placed) ? half_.scalar_type() : at::kFloat;
  return placed_in(average(), placed).to(type, /*non_blocking=*/false, /*copy=*/true);
}

}  // namespace lockstep::train

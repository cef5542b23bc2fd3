#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

#include "lockstep/base/data_type.h"
#include "lockstep/train/state/state_layout.h"

namespace lockstep::train {

/// The state of a training on a GPU: one version with the layout of the host, and the frozen
/// weights. If the model computes in 16 bits, also 16-bit copies of the weights. The progress in it
/// is that of the last upload.
///
/// One thread at a time. Work is added to libtorch's current stream.
class GpuState {
 public:
  /// `compute` is the type in which the model computes: F32, F16 or BF16.
  GpuState(const WeightLayout& layout, const StateShape& shape, DataType compute,
           const at::Device& device);

  /// Copies a version from the host. `frozen` may be null if no weight is frozen.
  void upload(const std::byte* state, const float* frozen);
  /// Copies only the weights and buffers.
  void refresh(const std::byte* state);

  std::byte* data() const { return static_cast<std::byte*>(bytes_.data_ptr()); }
  const StateShape& shape() const noexcept { return shape_; }
  /// f32: parameters, then buffers.
  at::Tensor numbers() const { return floats(0, layout_.num_elements); }
  /// f32: the average of the parameters.
  at::Tensor average() const;
  at::Tensor buffers() const {
    return floats(layout_.num_parameters, layout_.num_elements - layout_.num_parameters);
  }
  at::Tensor integers() const;
  /// The parameters in 16 bits; undefined if the model computes in f32.
  const at::Tensor& half() const noexcept { return half_; }
  DataType compute() const noexcept { return compute_; }
  at::Device device() const { return bytes_.device(); }

  /// The tensor that the model computes with. Only parameters of two or more dimensions are in 16
  /// bits, because norms and biases are few and sensitive.
  at::Tensor parameter(const PlacedTensor& placed) const;
  at::Tensor frozen(const PlacedTensor& placed) const;
  /// A copy of the average, in the same type.
  at::Tensor averaged(const PlacedTensor& placed) const;

 private:
  bool is_half(const PlacedTensor& placed) const {
    return half_.defined() && placed.sizes.size() >= 2;
  }
  at::Tensor floats(std::int64_t first, std::int64_t count) const;

  const WeightLayout& layout_;
  const StateShape& shape_;
  DataType compute_;
  at::Tensor bytes_;
  at::Tensor half_;
  at::Tensor frozen_;
  at::Tensor frozen_half_;
};

}  // namespace lockstep::train

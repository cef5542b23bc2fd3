#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>

#include "lockstep/base/data_type.h"
#include "lockstep/train/state/state_layout.h"

namespace lockstep::train {

/// What a GPU keeps of a training: one version of the state, byte for byte as the host has it, the
/// weights that are frozen, and both once more in 16 bits where the model computes in them. What is
/// not numbers of the model, as the progress, stays what was uploaded.
///
/// One thread at a time. Work goes to libtorch's current stream.
class GpuState {
 public:
  /// `compute` is what the model computes in: F32, F16 or BF16.
  GpuState(const WeightLayout& layout, const StateShape& shape, DataType compute,
           const at::Device& device);

  /// Takes a version from the host; `frozen` may be null where nothing is.
  void upload(const std::byte* state, const float* frozen);
  /// The same for weights and buffers alone.
  void refresh(const std::byte* state);

  std::byte* data() const { return static_cast<std::byte*>(bytes_.data_ptr()); }
  const StateShape& shape() const noexcept { return shape_; }
  /// f32: parameters, then buffers.
  at::Tensor numbers() const;
  /// f32: what was learned on average; of the parameters' length.
  at::Tensor average() const;
  at::Tensor buffers() const;
  at::Tensor integers() const;
  /// The parameters in 16 bits; undefined where the model computes in f32.
  const at::Tensor& half() const noexcept { return half_; }
  DataType compute() const noexcept { return compute_; }
  at::Device device() const { return bytes_.device(); }

  /// What the model computes with: in 16 bits, where it computes in them, are parameters of two
  /// dimensions or more. Norms and biases are few, and sensitive.
  at::Tensor parameter(const PlacedTensor& placed) const;
  at::Tensor frozen(const PlacedTensor& placed) const;
  /// The same of the average, in memory of its own.
  at::Tensor averaged(const PlacedTensor& placed) const;

 private:
  bool is_half(const PlacedTensor& placed) const;
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

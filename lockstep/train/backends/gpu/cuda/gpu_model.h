#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>
#include <vector>

#include "lockstep/gpu/layers/draw_mask.h"
#include "lockstep/gpu/update/leaf.h"
#include "lockstep/nn/model.h"
#include "lockstep/train/api/task.h"
#include "lockstep/train/backends/gpu/cuda/gpu_state.h"
#include "lockstep/train/backends/gpu/gpu_training.h"
#include "lockstep/train/backends/replica.h"

namespace lockstep::train {

/// Losses and metrics of a pass, on the GPU.
struct GpuPassResult {
  at::Tensor losses;   ///< f32 [replicas]: means over the micro-batches
  at::Tensor metrics;  ///< f32 [metrics]: sums over the samples
};

/// A model on a GPU. It reads the weights in place from the state of the GPU. Its buffers are its
/// own while it computes a replica. One thread at a time. Only `evaluate` waits for the GPU.
class GpuModel {
 public:
  GpuModel(std::unique_ptr<nn::Model> model, const WeightLayout& layout, const GpuState& state,
           const Task& task);

  nn::Model& model() noexcept { return *model_; }

  /// Begins a replica: copies the buffers of the state.
  void begin_replica();

  /// The key of the random numbers of a pass.
  struct Draws {
    std::uint64_t seed = 0;
    const std::int64_t* step = nullptr;  ///< on the GPU
  };
  /// Runs forward and backward. The gradients are those of the sum of the losses times
  /// `loss_scale`. They stay until `forget_gradients`. Errors: `Options` for metrics that are not
  /// one number.
  GpuPassResult run(const Fields& fields, const GpuPass& pass, const at::Tensor& loss_scale,
                    const Draws& draws);

  /// The gradients and buffers after the passes since `begin_replica`. Valid for work that is added
  /// to the stream before `forget_gradients`.
  std::vector<gpu::LeafTensor> leaf();
  void forget_gradients();
  /// f32: the buffers, in the order of a leaf.
  const at::Tensor& buffers() const noexcept { return buffers_; }
  const at::Tensor& integers() const noexcept { return integers_; }

  /// Evaluates with the current weights and buffers, as `evaluate_output` does. Waits for the GPU.
  ReplicaResult evaluate(const Fields& fields, const std::string& class_field);
  at::Tensor predict(const at::Tensor& input);
  /// Uses the trained weights, or a copy of their average.
  void attach(WeightsKind weights);

 private:
  at::Tensor forward(const Fields& fields) const;
  /// Returns the outputs, and the losses of the micro-batches.
  std::pair<at::Tensor, at::Tensor> learn_from(const Fields& fields, std::int64_t groups) const;
  at::Tensor metrics_of(const at::Tensor& output, const Fields& fields) const;

  std::unique_ptr<nn::Model> model_;
  std::vector<nn::Slot> slots_;
  const WeightLayout& layout_;
  const GpuState& state_;
  const Task& task_;
  at::Tensor buffers_;
  at::Tensor integers_;
  std::vector<at::Tensor> gradients_;  ///< `leaf` points to them
};

}  // namespace lockstep::train

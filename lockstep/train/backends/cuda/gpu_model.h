#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <utility>
#include <vector>

#include "lockstep/gpu/layers/draw_mask.h"
#include "lockstep/gpu/update/leaf.h"
#include "lockstep/nn/model.h"
#include "lockstep/train/api/task.h"
#include "lockstep/train/backends/cuda/gpu_state.h"
#include "lockstep/train/backends/gpu/gpu_training.h"
#include "lockstep/train/backends/replica_result.h"

namespace lockstep::train {

/// What a pass found out beside gradients, on the GPU.
struct GpuPassResult {
  at::Tensor losses;   ///< f32 [replicas]: the means over its micro-batches
  at::Tensor metrics;  ///< f32 [metrics]: sums over samples
};

/// A model on a GPU. Its weights are those of the GPU's state, read in place; its buffers are its
/// own while a replica computes. One thread at a time; nothing in it waits for the GPU, but for
/// `evaluate`.
class GpuModel {
 public:
  GpuModel(std::unique_ptr<nn::Model> model, const WeightLayout& layout, const GpuState& state,
           const Task& task);

  nn::Model& model() noexcept { return *model_; }

  /// Buffers become those of the state: a replica begins.
  void begin_replica();

  /// What draws of a pass are for: the seed, and where the number of the step stands.
  struct Draws {
    std::uint64_t seed = 0;
    const std::int64_t* step = nullptr;
  };
  /// Forward and backward. Gradients, of the losses' sum times `loss_scale`, stay until
  /// `forget_gradients`. Errors: `Options` for metrics that are not one number.
  GpuPassResult run(const Fields& fields, const GpuPass& pass, const at::Tensor& loss_scale,
                    const Draws& draws);

  /// What the passes since `begin_replica` have for each parameter and buffer. Valid until
  /// `forget_gradients`, for work that the stream is given before.
  std::vector<gpu::LeafTensor> leaf();
  void forget_gradients();
  /// f32: its buffers, as they stand in a leaf behind the parameters.
  const at::Tensor& buffers() const noexcept { return buffers_; }
  const at::Tensor& integers() const noexcept { return integers_; }

  /// Evaluates with weights and buffers as they are, as `evaluate_output` does. Waits for the GPU.
  ReplicaResult evaluate(const Fields& fields, const std::string& class_field);
  at::Tensor predict(const at::Tensor& input);
  /// Lets it compute with the average of weights, or with the weights again.
  void attach(WeightsKind weights);

 private:
  at::Tensor forward(const Fields& fields) const;
  /// Outputs, and the losses of the micro-batches.
  std::pair<at::Tensor, at::Tensor> learn_from(const Fields& fields, std::int64_t groups) const;
  at::Tensor metrics_of(const at::Tensor& output, const Fields& fields) const;
  at::Tensor gradient_of(const PlacedParameter& parameter) const;

  std::unique_ptr<nn::Model> model_;
  std::vector<nn::Slot> slots_;
  const WeightLayout& layout_;
  const GpuState& state_;
  const Task& task_;
  at::Tensor buffers_;
  at::Tensor integers_;
  std::vector<at::Tensor> gradients_;  ///< that `leaf` points to
};

}  // namespace lockstep::train

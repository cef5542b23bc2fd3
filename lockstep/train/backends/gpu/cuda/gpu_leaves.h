#pragma once

#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAStream.h>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/gpu/update/leaf.h"
#include "lockstep/gpu/update/step_control.h"
#include "lockstep/train/backends/gpu/cuda/device_table.h"
#include "lockstep/train/backends/gpu/cuda/gpu_model.h"
#include "lockstep/train/backends/gpu/cuda/gpu_state.h"
#include "lockstep/train/backends/gpu/cuda/gpu_transfers.h"
#include "lockstep/train/backends/gpu/gpu_training.h"

namespace lockstep::train {

/// Computes the leaves of an instance's replicas from samples that are on the GPU, and gathers
/// their gradients and buffers into flat rows.
///
/// All of this can be recorded and launched again: between `begin_recording` and `end_recording`
/// nothing is copied from the host.
class GpuLeaves {
 public:
  GpuLeaves(const GpuSetup& setup, const c10::cuda::CUDAStream& stream,
            std::unique_ptr<nn::Model> model);

  /// Called once, before all functions except those of the state and the model.
  void prepare(const GpuWork& work);

  GpuState& state() noexcept { return state_; }
  const GpuState& state() const noexcept { return state_; }
  GpuModel& model() noexcept { return model_; }
  GpuInput& input() noexcept { return *input_; }

  /// The decisions of the step, on the GPU.
  gpu::StepControl* control() const {
    return reinterpret_cast<gpu::StepControl*>(control_.data_ptr());
  }
  const at::Tensor& is_skipped() const noexcept { return is_skipped_; }
  void set_loss_scale(double scale, std::int64_t good_steps);
  /// Sets the step of the training, which is a key of the random layers.
  void set_step(std::int64_t step) { step_.fill_(step); }
  void next_step() { step_.add_(1); }

  /// The results of passes, on the GPU.
  struct Found {
    at::Tensor losses;   ///< f32 [replicas of the job]
    at::Tensor metrics;  ///< f32 [metrics]
  };
  /// Called when a leaf is complete and can be gathered.
  using TakeLeaf = std::function<void(const gpu::LeafTensor* table)>;
  /// Runs passes, each with its part of a step's samples.
  void run(std::span<const GpuPass> passes, std::int64_t step, const Found& found,
           const TakeLeaf& take_leaf);

  /// Combines the leaf with a flat row.
  void gather(const gpu::LeafTensor* table, gpu::Combine combine, float* row);

  /// Runs all passes, so that libraries choose their algorithms and allocate memory before a
  /// recording.
  void warm_up();
  /// `most_passes` is the number of passes that will be recorded.
  void begin_recording(std::size_t most_passes);
  void end_recording();

  gpu::Chunks chunks() const { return {chunks_.data(), static_cast<std::int32_t>(chunks_.size())}; }
  gpu::Chunks parameter_chunks() const { return {chunks_.data(), num_parameter_chunks_}; }
  gpu::Chunks buffer_chunks() const;
  /// By parameter, then buffer, on the GPU: 0 if there is no gradient, or no change.
  const at::Tensor& changed() const noexcept { return changed_; }
  std::span<const float> has_gradient() const noexcept { return has_gradient_; }

 private:
  GpuPassResult run_pass(const GpuPass& pass, const Fields& fields);
  void add_found(const GpuPass& pass, const GpuPassResult& result, const Found& to) const;
  void hand_in(const GpuPass& pass, const TakeLeaf& take_leaf);
  void note_gradients(const std::vector<gpu::LeafTensor>& tensors);
  void accumulate(const GpuPass& pass, std::vector<gpu::LeafTensor> tensors,
                  const TakeLeaf& take_leaf);
  const gpu::LeafTensor* table_of(const std::vector<gpu::LeafTensor>& tensors);
  void send_has_gradient();
  bool is_last_of_replica(const GpuPass& pass) const;
  gpu::Stream stream() const { return stream_.stream(); }

  const GpuSetup& setup_;
  c10::cuda::CUDAStream stream_;
  GpuState state_;
  GpuModel model_;
  GpuWork work_;
  std::optional<GpuInput> input_;
  std::optional<GpuFields> fields_;

  at::Tensor control_;      ///< gpu::StepControl
  at::Tensor loss_scale_;   ///< a member of `control_`
  at::Tensor is_skipped_;   ///< a member of `control_`
  at::Tensor step_;         ///< of the training
  at::Tensor accumulated_;  ///< gradients of a replica that has several passes
  at::Tensor changed_;
  DeviceTable<gpu::Chunk> chunks_;  ///< of parameters, then of buffers
  std::int32_t num_parameter_chunks_ = 0;

  /// The tables that a recording reads, one for each pass. Memory cannot be allocated during a
  /// recording, so it is allocated before.
  struct RecordedTables {
    std::vector<gpu::LeafTensor> tensors;
    gpu::DeviceMemory memory;
  };
  std::vector<RecordedTables> recorded_;
  bool is_recording_ = false;
  gpu::DeviceMemory table_;  ///< for work that is not recorded
  std::vector<float> has_gradient_;
};

}  // namespace lockstep::train

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
#include "lockstep/train/gpu_training.h"
#include "lockstep/train/on_gpu/device_table.h"
#include "lockstep/train/on_gpu/gpu_fields.h"
#include "lockstep/train/on_gpu/gpu_input.h"
#include "lockstep/train/on_gpu/gpu_model.h"
#include "lockstep/train/on_gpu/gpu_state.h"

namespace lockstep::train {

/// The passes of an instance's replicas over samples that are on the GPU, and what they leave:
/// gradients and buffers, gathered into flat rows.
///
/// All of it can be recorded and launched again: between `begin_recording` and `end_recording`
/// nothing is copied from the host.
class GpuLeaves {
 public:
  GpuLeaves(const GpuSetup& setup, const c10::cuda::CUDAStream& stream,
            std::unique_ptr<nn::Model> model);

  /// Before anything else but for the state and the model.
  void prepare(const GpuWork& work);

  GpuState& state() noexcept { return state_; }
  const GpuState& state() const noexcept { return state_; }
  GpuModel& model() noexcept { return model_; }
  GpuInput& input() noexcept { return *input_; }

  /// What is told to the kernels of a step, on the GPU.
  gpu::StepControl* control() const;
  const at::Tensor& is_skipped() const noexcept { return is_skipped_; }
  void set_loss_scale(double scale, std::int64_t good_steps);
  /// Of the training: what random layers draw for.
  void set_step(std::int64_t step) { step_.fill_(step); }
  void next_step() { step_.add_(1); }

  /// Where passes write what they found, on the GPU.
  struct Found {
    at::Tensor losses;   ///< f32 [replicas of the job]
    at::Tensor metrics;  ///< f32 [metrics]
  };
  /// Hears of each leaf, when it can be gathered.
  using TakeLeaf = std::function<void(const gpu::LeafTensor* table)>;
  /// Runs passes, each with its part of a step's samples.
  void run(std::span<const GpuPass> passes, std::int64_t step, const Found& found,
           const TakeLeaf& take_leaf);

  /// Combines the leaf with a flat row.
  void gather(const gpu::LeafTensor* table, gpu::Combine combine, float* row);

  /// So that libraries have chosen and allocated what they need before anything is recorded.
  void warm_up();
  /// `most_passes` is how many passes will be recorded.
  void begin_recording(std::size_t most_passes);
  void end_recording();

  gpu::Chunks chunks() const;
  gpu::Chunks parameter_chunks() const { return {chunks_.data(), num_parameter_chunks_}; }
  gpu::Chunks buffer_chunks() const;
  /// By parameter, then buffer, on the GPU: 0 where nothing was learned, or nothing changed.
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
  at::Tensor loss_scale_;   ///< the one in it
  at::Tensor is_skipped_;   ///< likewise
  at::Tensor step_;         ///< of the training
  at::Tensor accumulated_;  ///< of a replica whose micro-batches come in several passes
  at::Tensor changed_;
  DeviceTable<gpu::Chunk> chunks_;  ///< of parameters, then of buffers
  std::int32_t num_parameter_chunks_ = 0;

  /// Tables that what is recorded reads, one after the other. Memory cannot be had while work is
  /// recorded, so it is taken before.
  struct RecordedTables {
    std::vector<gpu::LeafTensor> tensors;
    gpu::DeviceMemory memory;
  };
  std::vector<RecordedTables> recorded_;
  bool is_recording_ = false;
  gpu::DeviceMemory table_;  ///< what is not recorded reads
  std::vector<float> has_gradient_;
};

}  // namespace lockstep::train

#pragma once

#include <memory>

#include "lockstep/train/backends/device_threads.h"
#include "lockstep/train/backends/gpu/gpu_training.h"
#include "lockstep/train/backends/training_backend.h"

namespace lockstep::train {

/// The GPU of an instance: the functions that are the same for both GPU backends.
///
/// Errors: `Unavailable` if there is no GPU, or if its memory is too small.
class GpuSession {
 public:
  /// Where the newest state is.
  enum class StateSource : std::uint8_t { Gpu, Host };
  /// With a `group`, the GPUs of all instances sum the leaves themselves.
  GpuSession(const BackendContext& context, StateSource source,
             std::shared_ptr<const gpu::NcclGroup> group = nullptr);

  GpuTraining& gpu() const noexcept { return *gpu_; }
  events::SpanSink* spans() const noexcept { return spans_; }

  /// Copies the current version of the shared state to the GPU.
  void upload() const { gpu_->upload(context_.state.current(), context_.state.frozen()); }
  void lend_model(const std::function<void(nn::Model&)>& use) {
    threads_.run([&](int) { use(context_.original.model()); });
  }
  /// Chooses which micro-batches are computed together, from the memory of the GPU.
  void prepare(const TrainingBackend::Preparation& preparation);
  void evaluate(Evaluator& evaluator);
  at::Tensor predict(const at::Tensor& input, WeightsKind weights);

 private:
  void refresh(WeightsKind weights) const;
  void warn_of_memory(std::int64_t needed, std::int64_t available) const;

  const BackendContext context_;
  const StateSource source_;
  events::SpanSink* spans_;
  DeviceThreads threads_;
  std::unique_ptr<GpuTraining> gpu_;
};

}  // namespace lockstep::train

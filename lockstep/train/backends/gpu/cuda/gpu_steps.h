#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/gpu/memory.h"
#include "lockstep/gpu/update/leaf_steps.h"
#include "lockstep/gpu/update/node_exchange.h"
#include "lockstep/gpu/update/update.h"
#include "lockstep/train/backends/gpu/cuda/captured_work.h"
#include "lockstep/train/backends/gpu/cuda/device_table.h"
#include "lockstep/train/backends/gpu/cuda/gpu_leaves.h"
#include "lockstep/train/backends/gpu/cuda/gpu_transfers.h"
#include "lockstep/train/backends/gpu/gpu_training.h"

namespace lockstep::train {

/// The work of a GPU, for errors.
struct GpuSite {
  int device = 0;
  topology::ReplicaRange replicas{};
  std::optional<std::int64_t> step{};  ///< of the training, from 0
  Fuse fuse = Fuse::Auto;
};

/// Trains on one GPU with work that is recorded once and launched again: whole steps, several in
/// one launch, or the leaves of single replicas.
///
/// A model that decides on the host what it computes cannot be recorded. Its kernels are launched
/// one by one, and the user gets a warning.
class GpuSteps final : public GpuTraining {
 public:
  /// `stream` must be libtorch's current stream. All memory is allocated on it.
  GpuSteps(GpuSetup setup, const c10::cuda::CUDAStream& stream, std::unique_ptr<nn::Model> model);

  void upload(const std::byte* state, const float* frozen) override;
  void refresh(const std::byte* state) override;
  void begin_download(std::byte* state) override;
  bool is_downloaded() const override { return download_.has_arrived(); }
  void wait_for_download() override { download_.wait(); }
  void set_loss_scale(double scale, std::int64_t good_steps) override;
  void prepare(GpuWork work) override;
  void take(std::int64_t step, data::Batch batch) override {
    leaves_.input().take(step, std::move(batch));
  }
  void release() override { leaves_.input().release(); }
  void launch(const GpuLaunch& launch) override;
  std::vector<GpuStepResult> wait() override;
  void compute_leaves(std::int64_t index) override;
  void reduce(std::int64_t index) override;
  void measure_gradients(std::int64_t index) override;
  void decide(std::int64_t index) override;
  void measure_trust(std::int64_t index) override;
  void update(std::int64_t index) override;
  void commit(std::int64_t index) override;
  GpuStepResult make_leaf(int replica, std::int64_t step, std::span<float> leaf,
                          std::span<float> changed) override;
  void copy_integers(std::byte* to) override;
  std::span<const float> has_gradient() const override { return leaves_.has_gradient(); }
  void begin_evaluation(const GpuSamples& samples, WeightsKind weights) override;
  ReplicaResult evaluate(const Fields& loaded, const std::string& class_field) override;
  at::Tensor predict(const at::Tensor& input) override;
  void end_evaluation() override;

 private:
  using Work = std::unique_ptr<CapturedWork>;
  GpuSite site(std::optional<std::int64_t> step = {}) const;
  void allocate();
  void launch_steps(const GpuLaunch& launch);
  GpuStepResult run_replica(int replica, std::int64_t step, std::span<float> leaf,
                            std::span<float> changed);
  CapturedWork* recorded(Work& work, std::size_t passes, const std::function<void()>& action);
  void run(Work& work, std::size_t passes, const std::function<void()>& action);
  void add_leaf(const gpu::LeafTensor* table);
  void keep_integers();
  gpu::UpdateCall update_call() const;
  std::vector<GpuPass> passes_of(int replica) const;
  GpuLeaves::Found found_in(std::int64_t step) const {
    return {.losses = losses_.select(0, step), .metrics = metrics_.select(0, step)};
  }
  void fetch_found();
  GpuStepResult result_of(std::size_t step) const;
  float* row(int index) const { return rows_.select(0, index).data_ptr<float>(); }
  bool has_loss_scaling() const noexcept { return setup_.step_rules.has_loss_scaling; }
  gpu::Skips skips() const noexcept {
    return has_loss_scaling() ? gpu::Skips::Possible : gpu::Skips::Never;
  }
  gpu::Stream raw_stream() const { return stream_.stream(); }

  const GpuSetup setup_;
  GpuWork work_;
  c10::cuda::CUDAStream stream_;
  GpuLeaves leaves_;
  GpuDownload download_;
  gpu::LeafSteps leaf_steps_;
  std::optional<gpu::NodeExchange> exchange_;  ///< if other GPUs have leaves, too
  gpu::UpdateConstants rules_;

  // On the GPU:
  at::Tensor rows_;     ///< [nodes of the tree that are in use, elements]
  at::Tensor changed_;  ///< by parameter, then buffer, on any instance
  at::Tensor losses_;   ///< [steps, replicas]
  at::Tensor metrics_;  ///< [steps, metrics]
  DeviceTable<gpu::ChunkRange> ranges_;
  DeviceTable<gpu::ChunkMeasure> measured_;
  DeviceTable<optimizer::TrustSums> trust_sums_;
  DeviceTable<double> trust_;
  DeviceTable<gpu::Coefficients> coefficients_;
  DeviceTable<gpu::StepControl> controls_;

  // On the host:
  std::vector<optimizer::ParameterSettings> settings_;
  gpu::PinnedMemory host_losses_;
  gpu::PinnedMemory host_metrics_;
  gpu::PinnedMemory host_leaf_;
  std::optional<GpuFields> evaluated_;  ///< during an evaluation
  WeightsKind evaluated_weights_ = WeightsKind::Trained;
  std::map<std::int64_t, Work> recorded_launches_;  ///< by number of steps
  std::map<int, Work> recorded_leaves_;             ///< by replica
  const CapturedWork* first_ = nullptr;
  bool can_be_recorded_ = true;
  std::size_t next_leaf_ = 0;
  std::int64_t first_launched_ = 0;  ///< first step of the last launch
  std::int64_t launched_ = 0;        ///< number of its steps
  at::cuda::CUDAEvent done_;
};

}  // namespace lockstep::train

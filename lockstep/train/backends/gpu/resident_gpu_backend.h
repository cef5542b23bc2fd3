#pragma once

#include <vector>

#include "lockstep/train/backends/gpu/gpu_session.h"
#include "lockstep/train/backends/gpu/resident_training.h"

namespace lockstep::train {

/// Keeps the state on a GPU. `GpuTraining` records the operations of `run_step`, and launches them
/// together: a launch has the steps of an iteration, or `Options::steps_at_once` of them. With
/// several instances, each GPU has the whole state, and the GPUs add their leaves with NCCL.
///
/// The host knows the progress. The rest of the state arrives with snapshots; after a crash,
/// training continues with the last one.
class ResidentGpuBackend final : public TrainingBackend {
 public:
  ResidentGpuBackend(const BackendContext& context, std::shared_ptr<const gpu::NcclGroup> group);

  void load_state() override;
  void store_state() override;
  const std::byte* read_state() override;
  const std::byte* copy_state() override;
  const Progress& progress() const override { return progress_; }
  void lend_model(const std::function<void(nn::Model&)>& use) override { session_.lend_model(use); }
  void prepare(const Preparation& preparation) override { session_.prepare(preparation); }
  void begin(const DataLoader::Iteration& iteration, std::int64_t first_step) override;
  std::vector<StepOutput> run() override;
  void evaluate(Evaluator& evaluator) override { session_.evaluate(evaluator); }
  at::Tensor predict(const at::Tensor& input, WeightsKind weights) override {
    return session_.predict(input, weights);
  }

 private:
  StepOutput account_for(const ResidentTraining::Step& step);
  void exchange_requests(std::span<float> requests);
  void take_snapshots();
  void begin_snapshot();
  void record_times(std::int64_t steps, const events::PhaseSeconds& seconds);

  const BackendContext context_;
  GpuSession session_;
  GpuTraining& gpu_;
  ResidentTraining training_;
  GpuSnapshots snapshots_;
  Progress progress_;
  DataLoader::Iteration iteration_{};
  std::int64_t next_step_ = 0;  ///< of the iteration
  /// 0: the host has the newest state, or is downloading it.
  std::int64_t launches_since_snapshot_ = 0;
  std::vector<std::byte> own_state_;  ///< downloaded for this instance alone
};

}  // namespace lockstep::train

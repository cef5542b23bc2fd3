#pragma once

#include <atomic>
#include <optional>
#include <vector>

#include "lockstep/plan/step_flow.h"
#include "lockstep/train/backends/cpu/bucketed_gradient_sender.h"
#include "lockstep/train/backends/cpu/replica_pipeline.h"
#include "lockstep/train/backends/device_threads.h"
#include "lockstep/train/backends/host_backend.h"

namespace lockstep::train {

/// Computes replicas on CPU cores: a thread drives each device, and runs the stages that are on it.
///
///     device threads   G times forward and backward, then write the leaves in order
///     caller's thread  the rest of `run_step`
class CpuBackend final : public HostBackend {
 public:
  explicit CpuBackend(const BackendContext& context);

  void load_state() override;
  void lend_model(const std::function<void(nn::Model&)>& use) override;
  void prepare(const Preparation& preparation) override;
  void evaluate(Evaluator& evaluator) override;
  at::Tensor predict(const at::Tensor& input, WeightsKind weights) override;

 private:
  void compute_leaves(std::int64_t index) override;
  void check_integers(std::span<const float> hash_sums) const override;
  void copy_integers(std::byte* to) const override { replicas_.front().copy_integers(to); }

  void run_device(int device);
  std::optional<plan::FlowTask> next_task(int device, events::SpanSink* spans);
  void run_task(const plan::FlowTask& task, DeviceTimes& times);
  double enter(const plan::FlowTask& task, events::SpanSink* spans);
  void run_backward(const plan::FlowTask& task);
  void write_leaf(const plan::FlowTask& task);
  Replica::LeafFormat leaf_format() const;
  void attach(Replica& replica, WeightsKind weights) const;
  void evaluate_on(int device, Evaluator& evaluator);

  DeviceThreads threads_;
  std::vector<Replica> replicas_;
  std::vector<ReplicaPipeline> pipelines_;
  std::unique_ptr<BucketedGradientSender> sender_;  ///< only if the job is on several hosts
  std::optional<plan::StepFlow> flow_;
  std::atomic<int> stages_written_ = 0;  ///< of the current leaf
};

}  // namespace lockstep::train

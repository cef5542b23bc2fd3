#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/data/loader/batch.h"
#include "lockstep/plan/pipeline_schedule.h"
#include "lockstep/plan/stage_split.h"
#include "lockstep/train/api/task.h"
#include "lockstep/train/backends/cpu/stage.h"
#include "lockstep/train/backends/replica_result.h"

namespace lockstep::train {

/// How a replica's model is cut, and how its stages compute.
struct PipelineSettings {
  plan::PipelineShape shape;
  Recompute recompute = Recompute::None;
  plan::StageSplit split;          ///< blocks that begin a stage
  std::vector<bool> may_be_cut{};  ///< by block: whether a part may begin with it
};

/// The stages of one replica, and the micro-batches that are between them. Activations and
/// gradients are handed over as they are: nothing is copied.
///
/// Stages run on threads of their own, one micro-batch at a time each; of one micro-batch only one
/// stage knows at a time. Who calls sees to the order.
class ReplicaPipeline {
 public:
  ReplicaPipeline(nn::Model& model, const Task& task, const PipelineSettings& settings);

  /// What is the same for all micro-batches of a step.
  struct Step {
    std::uint64_t seed = 0;
    std::uint64_t step = 0;
    std::uint32_t replica = 0;
    double loss_scale = 1;
  };
  void begin(const Step& step);

  /// Of the first stage, with a batch, which is kept until its backward pass is done.
  void enter(std::int64_t micro_batch, data::Batch batch, Fields fields);
  void forward(int stage, std::int64_t micro_batch);
  void backward(int stage, std::int64_t micro_batch);

  /// Of the step, when all is done.
  const ReplicaResult& result() const noexcept { return result_; }

 private:
  struct MicroBatch {
    std::optional<data::Batch> batch;
    Fields fields;
    at::Tensor handed;  ///< from one stage to the next, or back
    bool is_counted = false;
  };

  nn::DrawKey key_of(std::int64_t micro_batch) const;
  MicroBatch& micro_batch(std::int64_t number) {
    return micro_batches_[static_cast<std::size_t>(number)];
  }
  bool is_last(int stage) const { return static_cast<std::size_t>(stage) + 1 == stages_.size(); }
  at::Tensor loss_of(MicroBatch& micro_batch, const at::Tensor& output);

  const Task* task_;
  std::vector<Stage> stages_;
  std::vector<MicroBatch> micro_batches_;
  Step step_;
  ReplicaResult result_;
};

}  // namespace lockstep::train

#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/data/loader/batch.h"
#include "lockstep/nn/graph_input.h"
#include "lockstep/nn/model.h"
#include "lockstep/nn/random/random_scope.h"
#include "lockstep/plan/pipeline_schedule.h"
#include "lockstep/plan/stage_split.h"
#include "lockstep/train/api/task.h"
#include "lockstep/train/backends/replica.h"

namespace lockstep::train {

/// Blocks [first, end) of a model.
struct BlockRange {
  std::size_t first = 0;
  std::size_t end = 0;
};

/// How a stage computes.
struct StageSettings {
  /// The parts, in order. Each part has its own graph. Blocks that share a parameter must be in one
  /// part, because otherwise the order in which its gradients are added would depend on the parts.
  std::vector<BlockRange> parts;
  /// Parts keep only their input, and compute the rest again in the backward pass.
  bool recomputes = false;
  /// The last part keeps its graph, because its backward pass follows immediately.
  bool keeps_last = true;
};

/// One stage of one replica. Runs micro-batches forward in order, and backward in order. One thread
/// at a time.
///
/// Recomputation gives the same bits and has no other effect: it uses the same random key, and the
/// buffers have their earlier values meanwhile. Random numbers in a custom backward pass use the
/// key of the micro-batch; they depend on the number of parts.
///
/// Errors: `Options` if a part that is recomputed changes its input in place, and if a part uses a
/// parameter of another part.
class Stage {
 public:
  /// Computes the loss from the output of the model. Only the last stage has a head.
  using Head = std::function<at::Tensor(const at::Tensor& output)>;

  Stage(nn::Model& model, StageSettings settings);

  /// Returns the input of the next stage, or the result of the head.
  at::Tensor forward(at::Tensor input, const nn::DrawKey& key, const Head& head = {});

  /// Runs the oldest micro-batch backward. `gradient` is that of the result of `forward`. Returns
  /// the gradient of the input; undefined if it needs none.
  at::Tensor backward(at::Tensor gradient);

 private:
  /// Buffers, and their earlier values.
  using Values = std::vector<std::pair<at::Tensor, at::Tensor>>;
  /// The data of a part that are kept for one micro-batch.
  struct Kept {
    std::optional<nn::GraphInput> graph{};
    at::Tensor output{};
    // For recomputation:
    at::Tensor input{};
    std::int64_t version = 0;  ///< counts changes of the input in place
    bool wants_gradient = false;
    Values buffers{};
  };
  struct Pass {
    nn::DrawKey key;
    Head head;
    std::vector<Kept> parts;
  };

  bool records(std::size_t part) const noexcept;
  bool is_learned(std::size_t part) const noexcept { return learned_[part]; }
  at::Tensor run(std::size_t part, at::Tensor activation);
  at::Tensor record(std::size_t part, const at::Tensor& input, Kept& kept, const Head& head);
  at::Tensor run_unrecorded(std::size_t part, const at::Tensor& input, Kept& kept,
                            const Head& head);
  void compute_again(std::size_t part, Pass& pass);
  void check_input_stayed(std::size_t part, const at::Tensor& input, std::int64_t version) const;
  void check_uses_once(std::size_t part, const at::Tensor& output);
  Values values_of_buffers(std::size_t part) const;

  nn::Model* model_;
  StageSettings settings_;
  std::vector<std::vector<at::Tensor>> buffers_;  ///< by part
  std::vector<bool> learned_;                     ///< by part: has trained parameters
  std::vector<bool> checked_;                     ///< by part: uses only its own parameters
  std::deque<Pass> passes_;
};

/// The stages of a replica, and how they compute.
struct PipelineSettings {
  plan::PipelineShape shape;
  Recompute recompute = Recompute::None;
  plan::StageSplit split;          ///< blocks that begin a stage
  std::vector<bool> may_be_cut{};  ///< by block: whether a part may begin with the block
};

/// The stages of one replica, and the micro-batches between them. Activations and gradients are
/// passed from stage to stage without a copy.
///
/// Each stage runs on its own thread, and a micro-batch is in one stage at a time. The caller
/// ensures the order.
class ReplicaPipeline {
 public:
  ReplicaPipeline(nn::Model& model, const Task& task, const PipelineSettings& settings);

  /// The values that all micro-batches of a step share.
  struct Step {
    std::uint64_t seed = 0;
    std::uint64_t step = 0;
    std::uint32_t replica = 0;
    double loss_scale = 1;
  };
  void begin(const Step& step);

  /// Gives a batch to the first stage. It is kept until its backward pass is complete.
  void enter(std::int64_t micro_batch, data::Batch batch, Fields fields);
  void forward(int stage, std::int64_t micro_batch);
  void backward(int stage, std::int64_t micro_batch);

  /// The result of the step, when all micro-batches are complete.
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

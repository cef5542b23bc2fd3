#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "lockstep/nn/memory/kept_activations.h"
#include "lockstep/train/api/statistics.h"
#include "lockstep/train/backends/training_backend.h"
#include "lockstep/train/engine/evaluator.h"
#include "lockstep/train/recovery/recovery.h"
#include "lockstep/train/state/checkpoint_copy.h"
#include "lockstep/train/state/shared_state.h"

namespace lockstep::train {

/// A training from its first step to its end: connects the shared state, the backend that computes
/// the steps, evaluation and recovery.
///
///     run_step (engine/run_step.h)   one optimizer step, from top to bottom
///     StepBackend, TrainingBackend   the devices
///     SharedState                    two versions of the state, and the commit word
///     StepAccount                    result, progress and errors of a step
///     CheckpointCopy                 copies a version for a checkpoint, while training continues
///     Evaluator                      one evaluation
///
/// If the launcher keeps the memory of the state, an engine of a restarted job continues with it.
/// Every instance makes the same calls in the same order, on one thread at a time. After an error
/// only destruction is allowed.
class Engine final : public Recoverable {
 public:
  explicit Engine(EngineSetup setup);
  /// Gives the trained weights back to the model of the program.
  ~Engine() override;

  const JobLayout& layout() const noexcept { return setup_.layout; }
  const std::vector<Metric>& metrics() const noexcept { return setup_.task.metrics; }
  const PerfCounters& perf() const noexcept { return perf_; }
  void reset_perf() noexcept { perf_ = {}; }
  MemoryUse memory() const noexcept { return state_.memory(); }

  /// Prepares the steps; called once, before the first.
  void prepare(const TrainingBackend::Preparation& preparation) { backend_->prepare(preparation); }
  /// Calls `measure` with a model. Its changes of buffers and gradients are lost.
  void with_replica(const std::function<void(nn::Model&)>& measure) {
    guarded([&] { backend_->lend_model(measure); });
  }

  /// Continues with an iteration, after its first `first_step` steps.
  void begin(const DataLoader::Iteration& iteration, std::int64_t first_step) {
    backend_->begin(iteration, first_step);
  }
  /// Runs the next optimizer step, or as many as a GPU runs in one launch.
  std::vector<StepOutput> step(const StepPosition& position);

  /// Errors: `Options` if the optimizer keeps no average; those of `evaluate_output`.
  EvaluationMeans evaluate(EvaluationLoader& loader, const EvaluationTask& task,
                           const std::function<void(std::int64_t done)>& on_batch);
  /// The output for an input. Instances call it independently of each other.
  at::Tensor predict(const at::Tensor& input, WeightsKind weights);

  /// Calls `look` with the current model. Changes are lost.
  void with_model(WeightsKind weights, const std::function<void(nn::Model&)>& look);
  /// Calls `change`, which may change weights and buffers. All instances receive the weights of
  /// instance 0. The optimizer state, the progress and the loss scale are reset. `loads` is the
  /// number of such calls in the whole run.
  void set_model(const std::function<void(nn::Model&)>& change, std::int64_t loads);

  // For recovery:
  const Progress& progress() const override { return backend_->progress(); }
  bool is_recovered() const override { return state_.is_recovered(); }
  std::int64_t finished_epochs() const override { return state_.finished_epochs(); }
  void finish_epoch(std::int64_t epoch) override;
  std::uint64_t loader_print() const override { return state_.loader_print(); }
  void keep_loader_print(std::uint64_t print) override { state_.keep_loader_print(print); }
  void restore(const checkpoint::Checkpoint* from) override;
  CheckpointCopy::Copy begin_copy() override { return copy_.begin(backend_->read_state()); }
  double waited_for_copies() const override { return copy_.waited_seconds(); }
  void request(Request request) override { requests_.make(request); }
  bool take_checkpoint_request() override { return requests_.take_checkpoint_request(); }
  void guarded(const std::function<void()>& action) override;

 private:
  comm::Communicator& communicator() const { return setup_.options.world().communicator(); }
  void publish_first_version(const Progress& progress);
  void attach(WeightsKind weights, const std::byte* state) {
    original_.attach(weights_in(state_.shape(), state, weights), state);
  }
  void load_state();

  EngineSetup setup_;
  const nn::KeptActivations kept_activations_;
  const comm::WatchedCollectives watched_;
  const UpdateRules rules_;
  SharedState state_;
  Replica original_;  ///< the model of the program
  CheckpointCopy copy_;
  StepAccount account_;
  StepRequests requests_;
  PerfCounters perf_;
  std::unique_ptr<TrainingBackend> backend_;
};

}  // namespace lockstep::train

#pragma once

#include <array>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "lockstep/checkpoint/checkpoint.h"
#include "lockstep/checkpoint/checkpoint_folder.h"
#include "lockstep/comm/sharded_update.h"
#include "lockstep/nn/memory/block_pool.h"
#include "lockstep/nn/memory/kept_activations.h"
#include "lockstep/plan/stage_split.h"
#include "lockstep/plan/step_flow.h"
#include "lockstep/train/batch_source.h"
#include "lockstep/train/checkpointer.h"
#include "lockstep/train/data_loader.h"
#include "lockstep/train/device_threads.h"
#include "lockstep/train/device_times.h"
#include "lockstep/train/early_leaf.h"
#include "lockstep/train/evaluation.h"
#include "lockstep/train/gpu_snapshots.h"
#include "lockstep/train/gpu_training.h"
#include "lockstep/train/job_layout.h"
#include "lockstep/train/memory_use.h"
#include "lockstep/train/replica.h"
#include "lockstep/train/replica_pipeline.h"
#include "lockstep/train/resident_training.h"
#include "lockstep/train/state_tensors.h"
#include "lockstep/train/weight_update.h"

namespace lockstep::train {

/// What one optimizer step came to, over all replicas of the job.
struct StepOutput {
  double loss = 0;
  std::vector<double> metrics;
  std::vector<float> replica_losses;  ///< by replica
  bool skipped = false;               ///< by loss scaling
};

/// Loss and metrics of an evaluation, averaged over all samples.
struct EvaluationMeans {
  double loss = 0;
  std::vector<double> metrics;
  ConfusionMatrix confusion{};  ///< if a field with classes was named
};

/// Where a step belongs.
struct StepPlace {
  std::int64_t epoch = 0;  ///< of the loader
  bool begins_epoch = false;
  std::int64_t loop = 0;        ///< over epochs, from 1; 0: none
  std::int64_t loop_epoch = 0;  ///< of that loop, from 1
};

enum class Which : std::uint8_t { Weights, Average };

/// What an evaluation computes.
struct EvaluationTask {
  Which which = Which::Weights;
  std::string class_field{};  ///< for the confusion matrix; empty: none is made
};

/// What a training is made of. Everything decided.
struct EngineSetup {
  Options options;
  JobLayout layout;
  std::unique_ptr<nn::Model> model;
  Optimizer optimizer;
  Task task;
  std::function<void(const std::string&)> tell;  ///< what a user should know once
};

/// Runs optimizer steps: stages of replicas on their devices' threads, leaves in order, one update
/// for the host.
///
///     device threads   attach to the weights, G times forward and backward, then in order: leaf
///     caller's thread  reduce a slice, update it, commit
///
/// A GPU takes the place of the device threads. Where it is the only one, the state stays there:
/// the host has what was last brought home, and a crash goes back to that.
///
/// Nothing of what the current version holds is written before the next one is committed. Where the
/// launcher keeps that, an engine that is made by a restarted job goes on with it. After an error
/// only destruction is allowed. Every instance makes the same calls in the same order.
class Engine {
 public:
  explicit Engine(EngineSetup setup);
  ~Engine();

  const JobLayout& layout() const noexcept { return setup_.layout; }
  const Progress& progress() const {
    return resident_ ? resident_->progress() : shape_.progress(updates_.state());
  }
  const std::vector<Metric>& metrics() const noexcept { return setup_.task.metrics; }

  /// Whether it goes on with what an earlier attempt of the job has come to.
  bool is_recovered() const noexcept { return updates_.is_recovered(); }
  /// Everybody calls it; rank 0 says what to go on from.
  void restore(const checkpoint::Checkpoint* from);

  /// Epochs that are over, with all that follows their last step. They are kept with the state.
  std::int64_t finished_epochs() const noexcept;
  void finish_epoch(std::int64_t epoch);
  /// What stands for the loader that the state was trained with, kept with it; 0: none yet.
  std::uint64_t loader_print() const noexcept;
  void keep_loader_print(std::uint64_t print) noexcept;

  /// What one instance wants of all; they learn of it with the next step. Then it is
  /// `progress().is_stopped`, or whoever takes checkpoints takes one.
  enum class Request : std::uint8_t { Stop, Checkpoint };
  void request(Request request) noexcept;
  /// For rank 0, after each step: whether somebody has asked for a checkpoint.
  bool take_checkpoint_request() noexcept;

  /// What copies the state as it is now, on another thread. Steps go on meanwhile: the second one
  /// from now waits for it before it writes where this version stands.
  std::function<checkpoint::Content(Snapshot&)> begin_copy();
  /// Seconds that steps have waited for copies.
  double waited_for_copies() const noexcept { return waited_for_copies_; }

  /// Tells the other instances of what `action` throws, so that they do not wait.
  void guarded(const std::function<void()>& action);

  /// Cuts replicas into stages: before the first step. A micro-batch of the loader keeps so many
  /// bytes of activations, in f32.
  void spread(const plan::StageSplit& split, const DataLoader& loader, std::int64_t kept_bytes);

  /// A model to measure with: whatever it does to buffers and gradients is lost.
  void with_replica(const std::function<void(nn::Model&)>& measure);

  /// Goes to an iteration, of which so many steps were made before.
  void begin(const DataLoader::Iteration& iteration, std::int64_t done);
  /// The next of its optimizer steps: one; or as many as a GPU makes at once.
  std::vector<StepOutput> step(const StepPlace& place);

  /// Errors: `Options` for an average that is not kept; those of `evaluate_output`.
  EvaluationMeans evaluate(EvaluationLoader& loader, const EvaluationTask& task,
                           const std::function<void(std::int64_t done)>& on_batch);

  /// The output for an input, of this instance alone.
  at::Tensor predict(const at::Tensor& input, Which which);

  /// Calls `look` with the model as it is now. Whatever it changes is lost.
  void with_model(Which which, const std::function<void(nn::Model&)>& look);
  /// Lets `change` change weights and buffers: what instance 0 makes of them counts. The optimizer
  /// begins anew. `loads` is how often this was done in the whole run, with this time.
  void set_model(const std::function<void(nn::Model&)>& change, std::int64_t loads);

  const PerfCounters& perf() const noexcept { return perf_; }
  void reset_perf() noexcept { perf_ = {}; }
  MemoryUse memory() const noexcept;

 private:
  struct StepInput {
    BatchSource& source;
    const BatchTensors& tensors;
    Progress progress;

    std::int64_t number() const noexcept { return progress.steps + 1; }
  };
  struct EvaluationRun;
  KeptNumbers& kept_numbers() const noexcept { return common_.numbers(updates_.common()); }
  void keep_finished_epochs(std::int64_t epochs) noexcept;
  const std::byte* state_to_look_at();
  void write_requests(std::span<float> leaf);
  void write_requests_into(std::span<float> requests);
  bool is_wanted(Request request) const;
  void begin_recording();
  void make_replicas();
  void write_first_state(std::int64_t loads = 0, std::int64_t steps_before_load = 0);
  void write_frozen() const;
  void attach_all();
  float* frozen() const noexcept { return CommonShape::frozen(updates_.common()); }
  const float* weights(Which which, const std::byte* state) const;

  void make_gpu(std::unique_ptr<nn::Model> model);
  void send_to_gpu();
  void prepare_gpu(const DataLoader& loader, std::int64_t kept_bytes);
  void warn_of_memory(std::int64_t needed, std::int64_t available) const;
  void bring_home();
  const std::byte* download();
  void begin_snapshot();
  void take_snapshots();
  std::vector<StepOutput> run_resident(const StepPlace& place);
  void exchange_requests(std::span<float> requests);
  StepOutput finish_resident(const ResidentTraining::Step& step, const StepPlace& place);
  void record_launch(std::int64_t steps, const events::PhaseSeconds& seconds);
  void make_gpu_leaves(const StepInput& input, DeviceTimes& times);
  void take_gpu_batches(const StepInput& input);
  void make_gpu_leaf(int replica, const StepInput& input);
  std::array<float, LeafTotals::kHashBytes> gpu_integer_hash() const;
  void evaluate_on_gpu(EvaluationRun& run);
  at::Tensor predict_on_gpu(const at::Tensor& input, Which which);

  void evaluate_on(int device, EvaluationRun& run);
  StepOutput run_step(const StepPlace& place);
  void make_leaves(const StepInput& input, std::vector<DeviceTimes>& devices);
  void check_skipped(const StepOutput& output, const Progress& before) const;
  void run_device(int device, const StepInput& input, DeviceTimes& times);
  void run_backward(const plan::FlowTask& task, const StepInput& input);
  Replica::LeafFormat leaf_format(const StepInput& input) const;
  void run_task(const plan::FlowTask& task, const StepInput& input, DeviceTimes& times);
  double enter(const plan::FlowTask& task, const StepInput& input, events::SpanSink* spans);
  std::optional<plan::FlowTask> next_task(int device, const StepInput& input,
                                          events::SpanSink* spans);
  void hand_in(const plan::FlowTask& task, const StepInput& input);
  void check_totals(std::span<const float> totals, const Progress& progress);
  void check_losses(std::span<const float> losses, const Progress& progress) const;
  void check_integers(std::span<const float> totals) const;
  void name_idle_parameters(std::span<const float> totals);
  void next_integers(bool skipped, std::byte* next) const;
  void add_progress(Progress& next, bool skipped, const StepPlace& place, const DataLoader& loader,
                    std::span<const float> totals) const;
  StepOutput output_of(std::span<const float> totals, const data::BatchShape& shape) const;
  void record(const std::vector<DeviceTimes>& devices, double idle, double reduce, double step);
  void wait_for_copy();
  DataType leaf_type() const noexcept;
  bool has_loss_scaling() const noexcept;

  EngineSetup setup_;
  const nn::KeptActivations kept_;
  comm::Communicator& communicator_;
  const comm::WatchedCollectives watched_;
  WeightLayout weights_;
  StateShape shape_;
  CommonShape common_;
  LeafTotals totals_;
  WeightUpdate update_;
  comm::ShardedUpdate updates_;
  std::array<std::atomic<bool>, LeafTotals::kRequests> requests_{};  ///< of this instance
  std::int64_t last_own_request_ = -2;  ///< for a checkpoint: the step after which it came
  std::optional<Replica> original_;     ///< what was handed over
  std::optional<StateTensors> tensors_;
  std::vector<Replica> replicas_;
  std::vector<ReplicaPipeline> pipelines_;
  std::unique_ptr<EarlyLeaf> early_;  ///< where the job is on several hosts
  std::optional<plan::StepFlow> flow_;
  std::atomic<int> stages_handed_in_ = 0;  ///< of the replica whose turn it is
  DeviceThreads threads_;
  DataLoader::Iteration iteration_{};
  std::int64_t next_step_ = 0;  ///< of the iteration
  std::unique_ptr<BatchSource> source_;
  std::unique_ptr<GpuTraining> gpu_;                              ///< that computes, where one does
  std::optional<ResidentTraining> resident_;                      ///< where the state is there
  std::optional<GpuSnapshots> snapshots_;                         ///< likewise
  std::array<float, LeafTotals::kRequests> resident_requests_{};  ///< after the last launch
  std::vector<std::byte> own_state_;  ///< that was downloaded for this instance alone
  std::int64_t launches_away_ = 0;    ///< since the state set out for home
  std::vector<float> last_losses_;
  std::set<std::string> told_;
  PerfCounters perf_;
  events::SpanSink* spans_ = nullptr;            ///< of the caller's thread
  std::vector<events::SpanSink*> device_spans_;  ///< by device
  /// Whether a version of the state is copied that somebody was to copy; null where nobody was.
  std::shared_ptr<std::atomic<bool>> is_copied_;
  std::uint64_t copied_version_ = 0;
  double waited_for_copies_ = 0;
};

}  // namespace lockstep::train

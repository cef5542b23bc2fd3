#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/plan/stage_split.h"
#include "lockstep/train/api/data_loader.h"
#include "lockstep/train/api/statistics.h"
#include "lockstep/train/backends/replica.h"
#include "lockstep/train/engine/evaluator.h"
#include "lockstep/train/engine/step_account.h"
#include "lockstep/train/planner/job_layout.h"
#include "lockstep/train/state/checkpoint_copy.h"
#include "lockstep/train/state/shared_state.h"
#include "lockstep/train/state/weight_update.h"

namespace lockstep::train {

/// The parts of a training, with every option decided.
struct EngineSetup {
  Options options;
  JobLayout layout;
  std::unique_ptr<nn::Model> model;
  Optimizer optimizer;
  Task task;
  std::function<void(const std::string&)> tell;  ///< receives warnings for the user

  DataType leaf_type() const { return gradient_type(options.precision(), options.half()); }
  bool has_loss_scaling() const { return leaf_type() == DataType::F16; }
};

/// The parts of the engine that a backend uses. They outlive the backend.
struct BackendContext {
  const EngineSetup& setup;
  const UpdateRules& rules;
  SharedState& state;
  CheckpointCopy& copy;
  StepAccount& account;
  StepRequests& requests;
  Replica& original;   ///< the model of the program, which no replica computes with
  PerfCounters& perf;  ///< the backend adds the times of each step

  comm::Communicator& communicator() const { return setup.options.world().communicator(); }
  const JobLayout& layout() const noexcept { return setup.layout; }
  const events::Watchers& watchers() const { return setup.options.watchers(); }
};

/// The devices of an instance: their replicas, and the place where the newest state is. `run()`
/// calls `run_step` with the operations of the backend (`StepBackend`). `make_backend` chooses one
/// of three backends:
///
///     CpuBackend          replicas on device threads; the host sums and updates
///     HostSumGpuBackend   replicas on a GPU; the host sums and updates
///     ResidentGpuBackend  the GPU has the state, sums and updates; the host has snapshots
///
/// Every instance makes the same calls in the same order, on one thread at a time. After an error
/// only destruction is allowed.
class TrainingBackend {
 public:
  virtual ~TrainingBackend() = default;

  /// Continues with the current version of the shared state.
  virtual void load_state() = 0;
  /// Makes the newest state the current version of the shared state. Every instance calls it.
  virtual void store_state() = 0;
  /// Returns the newest state, for a checkpoint or for the program. One instance may call it alone.
  /// The result is valid until the next call of a member.
  virtual const std::byte* read_state() = 0;
  /// Returns the newest state without the other instances, which may be gone.
  virtual const std::byte* copy_state() = 0;
  /// The progress of the newest state.
  virtual const Progress& progress() const = 0;

  /// Calls `use` with a model on a thread that has the compute threads of a device. Changes of its
  /// buffers and gradients are lost.
  virtual void lend_model(const std::function<void(nn::Model&)>& use) = 0;

  struct Preparation {
    const plan::StageSplit& split;  ///< of each replica
    const DataLoader& loader;
    std::int64_t kept_bytes = 0;  ///< activations of a micro-batch in f32, in bytes
  };
  /// Prepares the steps. Called once, before the first step.
  virtual void prepare(const Preparation& preparation) = 0;

  /// Continues with an iteration, after its first `first_step` steps.
  virtual void begin(const DataLoader::Iteration& iteration, std::int64_t first_step) = 0;
  /// Runs the next step, or all steps of one launch.
  virtual std::vector<StepOutput> run() = 0;

  virtual void evaluate(Evaluator& evaluator) = 0;
  virtual at::Tensor predict(const at::Tensor& input, WeightsKind weights) = 0;
};

/// Every instance calls it.
std::unique_ptr<TrainingBackend> make_backend(const BackendContext& context);

}  // namespace lockstep::train

#pragma once

#include <concepts>
#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/events/train_results.h"
#include "lockstep/nn/module_model.h"
#include "lockstep/optimizer/optimizer.h"
#include "lockstep/plan/plan.h"
#include "lockstep/train/api/checkpoint_cost.h"
#include "lockstep/train/api/data_loader.h"
#include "lockstep/train/api/evaluation.h"
#include "lockstep/train/api/memory_use.h"
#include "lockstep/train/api/options.h"
#include "lockstep/train/api/phase_times.h"
#include "lockstep/train/api/task.h"

namespace lockstep {

namespace checkpoint {
struct EpochEntry;
}

/// A function that makes a module. Holders can be called too, as `torch::nn::Sequential`, and make
/// none.
template <typename Make>
concept MakesModule = !torch::detail::is_module_holder<Make>::value && std::invocable<Make>;

class EpochRange;

/// What goes on from an earlier run, and with what.
struct ResumeResult {
  std::int64_t step = 0;  ///< optimizer steps that were made before; 0: it begins
  /// The checkpoint; empty where it is memory that the launcher has kept.
  std::filesystem::path checkpoint{};
};

/// Where a plan came from.
struct CompileResult {
  bool is_cached = false;  ///< from an earlier run; known to instance 0
  std::string key;         ///< under which it is kept: 16 hexadecimal digits; so is this
};

/// A model that is trained by all replicas of the job.
///
/// A module is handed over as a shared pointer or a holder, where it can be cloned, or as a
/// function that makes one, which is then called for each replica. Its weights are read in place
/// from the host's one copy while this lives; the module handed over has the trained weights
/// afterwards.
///
/// All of it trains in training mode. All instances make the same calls in the same order. One
/// thread at a time.
///
/// Where the launcher restarts the job, or options say so, training goes on where it was, with the
/// bits that it would have had: `epochs` begins with the epoch that was under way. What else the
/// program has done before it walks through again: steps that were made return at once.
///
/// Errors: `Options` for a model that cannot be trained; `Diverged` where a loss is not finite;
/// those of collectives and of the loader; `Stopped` where SIGTERM came and a checkpoint was taken.
/// After an error only destruction is allowed.
class LOCKSTEP_API TrainingModel {
 public:
  TrainingModel(std::unique_ptr<nn::Model> model, const Options& options, Optimizer optimizer,
                Task task = {});
  template <std::derived_from<torch::nn::Module> Module>
  TrainingModel(std::shared_ptr<Module> module, const Options& options, Optimizer optimizer,
                Task task = {})
      : TrainingModel(nn::model_of(std::move(module)), options, std::move(optimizer),
                      std::move(task)) {}
  template <typename Module>
  TrainingModel(const torch::nn::ModuleHolder<Module>& module, const Options& options,
                Optimizer optimizer, Task task = {})
      : TrainingModel(nn::model_of(module), options, std::move(optimizer), std::move(task)) {}
  template <MakesModule Make>
  TrainingModel(Make make, const Options& options, Optimizer optimizer, Task task = {})
      : TrainingModel(nn::made_model(std::move(make), options.seed()), options,
                      std::move(optimizer), std::move(task)) {}
  TrainingModel(TrainingModel&&) noexcept;
  ~TrainingModel();

  /// Hears of what a user should know; else instance 0 writes it to standard error.
  void tell(std::function<void(const std::string&)> listener);

  /// Hears of each optimizer step, counted from 1, on every instance.
  void on_step(std::function<void(std::int64_t step, const StepResult&)> listener);

  /// Meets the other instances and shares the weights; else the first call that needs it does.
  void compile();

  /// The same, and decides all that training with this loader needs: measures the blocks of the
  /// model, unless a plan for just this is kept from an earlier run. Else the first step does.
  /// `on_block` hears, on instance 0, of blocks that are measured.
  ///
  /// Errors: `Options` for stages that cannot be.
  CompileResult compile(
      DataLoader& loader,
      const std::function<void(int done, int total)>& on_block = [](int, int) {});

  /// What was decided. Errors: `Options` before `compile(loader)` or the first step.
  const plan::Plan& plan() const;

  /// D optimizer steps on every replica.
  IterationResult step(const DataLoader::Iteration& iteration);

  /// Of the epoch that the last step was of, so far.
  StepResult epoch_so_far();

  /// Over a whole set, every sample once. `on_batch` hears how many of this instance are done.
  StepResult evaluate(
      EvaluationLoader& loader, WeightsKind kind = WeightsKind::Trained,
      const std::function<void(std::int64_t done)>& on_batch = [](auto) {});

  /// Evaluates a classifier over a whole set, with a confusion matrix. Every sample counts exactly
  /// once, and every instance gets the result of the whole job. For a fixed batch size and number
  /// of threads per device, no bit of the result depends on instances or replicas. `class_field`
  /// holds the class of each sample. Errors: `Options` if the outputs are not [samples, classes];
  /// `Data` for a class that the model has no output for.
  Evaluation evaluate_classes(
      EvaluationLoader& loader, const std::string& class_field = "label",
      WeightsKind kind = WeightsKind::Trained,
      const std::function<void(std::int64_t done)>& on_batch = [](auto) {});

  /// What the model makes of an input, without learning from it; each instance for itself, once
  /// all have compiled.
  at::Tensor predict(const at::Tensor& input, WeightsKind kind = WeightsKind::Trained);

  /// Writes or reads a weight file, as `nn/model_weights.h` does. Instance 0 does it for all; after
  /// `load` the optimizer begins anew.
  void save(const std::filesystem::path& path, WeightsKind kind = WeightsKind::Trained);
  void load(const std::filesystem::path& path);

  /// 16 hexadecimal digits that are equal where all weights and buffers are.
  std::string digest(WeightsKind kind = WeightsKind::Trained);
  /// The same for each tensor, by name.
  std::vector<std::pair<std::string, std::string>> digests();

  /// Where the time of this instance's steps went.
  PerfCounters perf() const;
  void reset_perf();

  /// Optimizer steps so far.
  std::int64_t steps();
  int replicas();
  int threads_per_device();
  MemoryUse memory();

  /// 1, 2, …, count: `for (int epoch : model.epochs(5))`. A run that goes on begins with the epoch
  /// that is not finished. One is when the loop asks for the next: evaluate it before.
  EpochRange epochs(int count);

  /// Meets the other instances, and tells what it goes on from.
  ResumeResult resumed();
  /// Takes a checkpoint, and returns when it is on disk, or false where it could not be written,
  /// which is also told. Options have to name a folder.
  bool checkpoint();
  CheckpointCost checkpoint_cost() const;

 private:
  friend class EpochRange;
  friend class Trainer;
  struct LOCKSTEP_INTERNAL Impl;

  /// For the history of a `Trainer`, which goes with checkpoints.
  void remember(const checkpoint::EpochEntry& entry);
  std::vector<checkpoint::EpochEntry> resumed_history() const;

  std::unique_ptr<Impl> impl_;
};

/// The epochs of a training that are not done yet. Made by `TrainingModel::epochs`.
class LOCKSTEP_API EpochRange {
 public:
  class Iterator {
   public:
    Iterator(TrainingModel::Impl* model, int epoch, int count)
        : model_(model), epoch_(epoch), count_(count) {}
    int operator*() const noexcept { return epoch_; }
    Iterator& operator++();
    bool operator==(std::default_sentinel_t) const noexcept { return epoch_ > count_; }

   private:
    TrainingModel::Impl* model_;
    int epoch_;
    int count_;
  };

  EpochRange(TrainingModel::Impl* model, int count) : model_(model), count_(count) {}

  Iterator begin() const;
  std::default_sentinel_t end() const noexcept { return {}; }

 private:
  TrainingModel::Impl* model_;
  int count_;
};

}  // namespace lockstep

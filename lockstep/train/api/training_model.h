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
#include "lockstep/train/api/data_loader.h"
#include "lockstep/train/api/evaluation.h"
#include "lockstep/train/api/options.h"
#include "lockstep/train/api/statistics.h"
#include "lockstep/train/api/task.h"

namespace lockstep {

namespace checkpoint {
struct EpochEntry;
}

/// A function that makes a module. Holders, such as `torch::nn::Sequential`, can be called, too,
/// but do not make a module.
template <typename Make>
concept MakesModule = !torch::detail::is_module_holder<Make>::value && std::invocable<Make>;

class EpochRange;

/// The state with which a training began.
struct ResumeResult {
  std::int64_t step = 0;  ///< optimizer steps of earlier runs; 0: a new training
  /// The checkpoint; empty if the state was in memory that the launcher has kept.
  std::filesystem::path checkpoint{};
};

/// The origin of a plan, on instance 0.
struct CompileResult {
  bool is_cached = false;  ///< made by an earlier run
  std::string key;         ///< of the plan cache: 16 hexadecimal digits
};

/// A model that is trained by all replicas of the job.
///
///     TrainingModel model(net, options, AdamW({.lr = 1e-3}));
///     for (const int epoch : model.epochs(5)) {
///       for (const auto& iteration : loader) model.step(iteration);
///     }
///     model.save("net.safetensors");
///
/// Pass a module as a shared pointer or a holder if it can be cloned, or as a function that makes
/// one. The function is called for each replica. All replicas of a host share one copy of the
/// weights. When this object is destroyed, the module that was passed gets the trained weights.
///
/// The whole model is in training mode. All instances make the same calls in the same order, on one
/// thread at a time.
///
/// If the launcher restarts the job, or if the options request it, the training continues where an
/// earlier run ended, with the same bits as without an interruption. `epochs` begins with the
/// unfinished epoch. The program runs again from its beginning, and `step` returns immediately for
/// completed steps.
///
/// Errors: `Options` for a model that cannot be trained; `Diverged` if a loss is not finite; those
/// of collectives and of the loader; `Stopped` after SIGTERM, when a checkpoint has been taken.
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

  /// Sets the function that receives warnings. By default each instance prints its warnings to
  /// stderr.
  void tell(std::function<void(const std::string&)> listener);

  /// Sets the function that receives the result of each optimizer step, on every instance. Steps
  /// count from 1.
  void on_step(std::function<void(std::int64_t step, const StepResult&)> listener);

  /// Connects to the other instances and broadcasts the weights. The first operation that needs the
  /// connection calls this function implicitly.
  void compile();

  /// Also makes the plan for training with this loader. Measures the blocks of the model, unless
  /// the cache has the plan. The first step calls this function implicitly. `on_block` is called on
  /// instance 0 for each measured block.
  ///
  /// Errors: `Options` for an impossible split into stages.
  CompileResult compile(
      DataLoader& loader,
      const std::function<void(int done, int total)>& on_block = [](int, int) {});

  /// Errors: `Options` before `compile(loader)` or the first step.
  const plan::Plan& plan() const;

  /// Runs D optimizer steps on every replica.
  IterationResult step(const DataLoader::Iteration& iteration);

  /// Running means over the current epoch.
  StepResult epoch_so_far();

  /// Evaluates every sample of a set once. `on_batch` receives the number of batches that this
  /// instance has evaluated.
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

  /// Returns the output for an input. Instances call it independently of each other, after all have
  /// compiled.
  at::Tensor predict(const at::Tensor& input, WeightsKind kind = WeightsKind::Trained);

  /// Writes or reads a weight file (`nn/model_weights.h`) on instance 0. `load` sends the weights
  /// to all instances, and resets the optimizer.
  void save(const std::filesystem::path& path, WeightsKind kind = WeightsKind::Trained);
  void load(const std::filesystem::path& path);

  /// A hash of all weights and buffers: 16 hexadecimal digits.
  std::string digest(WeightsKind kind = WeightsKind::Trained);
  /// The hash of each tensor, by name.
  std::vector<std::pair<std::string, std::string>> digests();

  /// The times of the steps of this instance.
  PerfCounters perf() const;
  void reset_perf();

  /// Optimizer steps so far.
  std::int64_t steps();
  int replicas();
  int threads_per_device();
  MemoryUse memory();

  /// The epochs 1, 2, …, count. A resumed run begins with the unfinished epoch. An epoch is
  /// finished when the loop requests the next one, so evaluate the epoch before.
  EpochRange epochs(int count);

  /// Connects to the other instances, and returns the state with which the training began.
  ResumeResult resumed();
  /// Takes a checkpoint, and returns when it is on disk. Returns false, after a warning, if it
  /// could not be written. The options must name a folder.
  bool checkpoint();
  CheckpointCost checkpoint_cost() const;

 private:
  friend class EpochRange;
  friend class Trainer;
  struct LOCKSTEP_INTERNAL Impl;

  /// The history of a `Trainer`, which is part of the checkpoints.
  void remember(const checkpoint::EpochEntry& entry);
  std::vector<checkpoint::EpochEntry> resumed_history() const;

  std::unique_ptr<Impl> impl_;
};

/// The unfinished epochs of a training. Made by `TrainingModel::epochs`.
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

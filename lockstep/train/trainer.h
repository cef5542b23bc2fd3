#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/train/callback.h"
#include "lockstep/train/training_model.h"

namespace lockstep {

/// What `Trainer::fit` is asked for.
struct FitOptions {
  int epochs = 1;
  /// Evaluated after every epoch, where there is one. It outlives the call.
  EvaluationLoader* validation = nullptr;
};

/// Training for those who want no loop: a `TrainingModel` that is made when it is first needed, and
/// callbacks.
///
///     auto trainer = Trainer(nn::resnet20(10), options, AdamW({.lr = 1e-3}));
///     trainer.add(callbacks::checkpoint({.folder = "run1"})).add(callbacks::early_stop());
///     const auto history = trainer.fit(loader, {.epochs = 20, .validation = &test_loader});
///     trainer.model().save("resnet20.safetensors");
///
/// It does what the loop over `TrainingModel::epochs` does, with the same bits, and goes on after a
/// crash as that does. Validations that an earlier attempt of the job has made, or another job
/// whose checkpoint it goes on from, are not made again.
///
/// Loaders are made from the same options. All instances make the same calls in the same order, one
/// thread at a time. Errors: those of `TrainingModel`, and `Options` where callbacks come too late;
/// after an error of training only destruction is allowed.
class LOCKSTEP_API Trainer {
 public:
  /// Takes what a `TrainingModel` takes.
  template <typename Module>
  Trainer(Module module, const Options& options, Optimizer optimizer, Task task = {})
      : options_(options), metrics_(task.metrics) {
    // What a std::function holds can be copied, and a model cannot.
    auto held = std::make_shared<Module>(std::move(module));
    make_ = [held, optimizer = std::move(optimizer), task = std::move(task)](const Options& with) {
      return std::make_unique<TrainingModel>(std::move(*held), with, optimizer, task);
    };
  }

  /// Errors: `Options` once the model is made.
  Trainer& add(CallbackPtr callback);

  /// Trains for so many epochs. Called again, it trains for as many more.
  History fit(DataLoader& loader, const FitOptions& fit = {});
  /// Over a whole set, every sample once.
  StepResult evaluate(EvaluationLoader& loader, WeightsKind kind = WeightsKind::Trained);
  /// What the model makes of an input; each instance for itself.
  at::Tensor predict(const at::Tensor& input, WeightsKind kind = WeightsKind::Trained);

  /// For all else: save, load, digest, perf, plan.
  TrainingModel& model();

 private:
  History run_fit(DataLoader& loader, const FitOptions& fit);
  std::optional<EpochResult> run_epoch(int epoch, DataLoader& loader, const FitOptions& fit,
                                       const std::optional<EpochResult>& before);
  bool train_epoch(int epoch, DataLoader& loader);
  StepResult validate(int epoch, EvaluationLoader& loader);
  void add(const EpochResult& result, History& history);
  bool goes_on(const History& history);
  void tell(const std::function<void(Callback&)>& of);

  Options options_;
  std::vector<Metric> metrics_;
  std::function<std::unique_ptr<TrainingModel>(const Options&)> make_;
  std::unique_ptr<TrainingModel> model_;
  std::vector<CallbackPtr> callbacks_;
  int fits_ = 0;             ///< calls of `fit` so far
  std::int64_t walked_ = 0;  ///< optimizer steps of all epochs so far, whoever made them
};

}  // namespace lockstep

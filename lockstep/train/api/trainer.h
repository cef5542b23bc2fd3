#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/train/api/callback.h"
#include "lockstep/train/api/training_model.h"

namespace lockstep {

/// Options of `Trainer::fit`.
struct FitOptions {
  int epochs = 1;
  /// The validation set, or null. It must outlive the call.
  EvaluationLoader* validation = nullptr;
  int validate_every = 1;  ///< epochs; 0: only after the last epoch
  WeightsKind validated_weights = WeightsKind::Trained;
  /// Number of `Callback::on_preparing` steps that the program has reported itself before this
  /// call.
  int preparations = 0;
};

/// Runs the training loop over a `TrainingModel`, with callbacks.
///
///     auto trainer = Trainer(nn::resnet20(10), options, AdamW({.lr = 1e-3}));
///     trainer.add(callbacks::checkpoint({.folder = "run1"})).add(callbacks::early_stop());
///     const auto history = trainer.fit(loader, {.epochs = 20, .validation = &test_loader});
///     trainer.model().save("resnet20.safetensors");
///
/// `fit` gives the same bits as a loop over `TrainingModel::epochs`, and continues after a crash in
/// the same way. It does not repeat the validations of an earlier attempt of the job, or of the run
/// whose checkpoint it continues. If that run has finished all epochs, `fit` only validates the
/// last one again. `lockstep train` is a program that uses this class.
///
/// The model is made when it is first needed. Loaders must be made from the same options. All
/// instances make the same calls in the same order, on one thread at a time. Errors: those of
/// `TrainingModel`, and `Options` if a callback is added too late. After an error of a training
/// only destruction is allowed.
class LOCKSTEP_API Trainer {
 public:
  /// The arguments are those of `TrainingModel`.
  template <typename Module>
  Trainer(Module module, const Options& options, Optimizer optimizer, Task task = {})
      : options_(options), metrics_(task.metrics) {
    // A std::function must be copyable, and a model is not.
    auto held = std::make_shared<Module>(std::move(module));
    make_ = [held, optimizer = std::move(optimizer), task = std::move(task)](const Options& with) {
      return std::make_unique<TrainingModel>(std::move(*held), with, optimizer, task);
    };
  }

  /// Errors: `Options` once the model is made.
  Trainer& add(CallbackPtr callback);

  /// Trains for some epochs. A further call trains for more epochs.
  History fit(DataLoader& loader, const FitOptions& fit = {});
  /// Evaluates every sample of a set once.
  StepResult evaluate(EvaluationLoader& loader, WeightsKind kind = WeightsKind::Trained) {
    return model().evaluate(loader, kind);
  }
  /// The output for an input. Instances call it independently of each other.
  at::Tensor predict(const at::Tensor& input, WeightsKind kind = WeightsKind::Trained) {
    return model().predict(input, kind);
  }

  /// The model, for example to save it or to read its digest.
  TrainingModel& model();

 private:
  History run_fit(DataLoader& loader, const FitOptions& fit);
  void compile(DataLoader& loader, const FitOptions& fit);
  std::optional<EpochResult> run_epoch(int epoch, DataLoader& loader, const FitOptions& fit,
                                       const std::optional<EpochResult>& before);
  bool train_epoch(int epoch, DataLoader& loader);
  StepResult validate(int epoch, const FitOptions& fit);
  void add(const EpochResult& result, History& history);
  bool goes_on(const History& history);
  void call(const std::function<void(Callback&)>& function) const;

  Options options_;
  std::vector<Metric> metrics_;
  std::function<std::unique_ptr<TrainingModel>(const Options&)> make_;
  /// Shared with the listeners of the model, because a `Trainer` can be moved.
  std::shared_ptr<std::vector<CallbackPtr>> callbacks_ =
      std::make_shared<std::vector<CallbackPtr>>();
  std::unique_ptr<TrainingModel> model_;
  FitShape shape_;       ///< of the last call of `fit`
  int fits_ = 0;         ///< calls of `fit` so far
  int validations_ = 0;  ///< by this process
  /// Optimizer steps of all epochs so far, in this run or an earlier one.
  std::int64_t walked_ = 0;
};

}  // namespace lockstep

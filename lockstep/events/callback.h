#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/export.h"
#include "lockstep/events/train_results.h"

namespace lockstep {

class Options;
class TrainingModel;

namespace events {

/// A step of the preparation begins; or, if `done == total`, the result of the preparation.
struct Preparing {
  std::string what;  ///< "reading the dataset"
  int done = 0;      ///< steps before this one
  int total = 0;
};

}  // namespace events

/// The plan of one call of `Trainer::fit`.
struct FitShape {
  int epochs = 0;
  int validations = 0;          ///< 0: there is no validation
  int validate_every = 1;       ///< epochs; 0: only after the last epoch
  std::int64_t iterations = 0;  ///< of an epoch
  std::int64_t steps_per_iteration = 1;
  std::int64_t samples_per_iteration = 0;  ///< of all replicas

  bool validates_after(int epoch) const noexcept {
    return validations > 0 &&
           (epoch == epochs || (validate_every > 0 && epoch % validate_every == 0));
  }
  /// Validations from this epoch to the end.
  int validations_from(int epoch) const noexcept {
    int count = 0;
    for (; epoch <= epochs; ++epoch) count += validates_after(epoch) ? 1 : 0;
    return count;
  }
};

/// Takes part in a training. Override the functions that you need.
///
/// Every instance calls its callbacks in the order in which they were added. A callback that only
/// shows or writes something is called on instance 0 alone (`called_on`). One thread at a time
/// calls: the thread that calls `fit`, and any thread for the batches of a validation. An exception
/// ends the training.
///
/// A restarted job, and a run that continues a checkpoint, call `fit` again from the unfinished
/// epoch. A callback that makes decisions must make them from the history alone.
class LOCKSTEP_API Callback {
 public:
  virtual ~Callback() = default;

  /// A callback that overrides `prepare` to set options, or `goes_on`, must be called on every
  /// instance. Otherwise the instances make different decisions, and wait for each other.
  enum class CalledOn : std::uint8_t { EveryInstance, FirstInstance };
  virtual CalledOn called_on() const noexcept { return CalledOn::EveryInstance; }

  /// Before the model is made. The options that are set here apply to the model.
  virtual void prepare(Options& /*options*/) {}
  virtual void on_preparing(const events::Preparing& /*step*/) {}
  /// After the model is compiled, before the first step.
  virtual void on_compiled(TrainingModel& /*model*/) {}
  /// Receives a warning for the user. Returns whether the user sees it here; if no callback shows
  /// it, instance 0 prints it to standard error.
  virtual bool on_notice(const std::string& /*text*/) { return false; }

  /// At the beginning of each call of `Trainer::fit`, after the model is compiled.
  virtual void on_fit_begin(const FitShape& /*shape*/) {}
  /// At the end of each call of `Trainer::fit`, after the last epoch.
  virtual void on_fit_end(const History& /*history*/, TrainingModel& /*model*/) {}
  /// When `Trainer::fit` ends with an error. The model must not be used.
  virtual void on_fit_failed(const Error& /*error*/) noexcept {}

  virtual void on_epoch_begin(int /*epoch*/, std::int64_t /*iterations*/) {}
  /// After each optimizer step; `step` counts from 1 over the whole run.
  virtual void on_step(std::int64_t /*step*/, const StepResult& /*result*/,
                       TrainingModel& /*model*/) {}
  /// After each call of `TrainingModel::step` that has computed something; counts from 1.
  virtual void on_iteration(int /*epoch*/, std::int64_t /*iteration*/,
                            const IterationResult& /*result*/) {}
  /// After the training of an epoch, before its validation.
  virtual void on_epoch_trained(int /*epoch*/, const StepResult& /*result*/) {}
  /// `epoch` is 0 for an evaluation without a training.
  virtual void on_validation_begin(int /*epoch*/, std::int64_t /*local_batches*/) {}
  virtual void on_validation_batch(std::int64_t /*done*/) {}
  virtual void on_validated(int /*epoch*/, const StepResult& /*result*/) {}
  /// After an epoch and its validation. If a callback returns false, the training ends.
  virtual bool goes_on(const History& /*history*/) { return true; }
};

using CallbackPtr = std::shared_ptr<Callback>;

}  // namespace lockstep

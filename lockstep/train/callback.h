#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/export.h"
#include "lockstep/events/train_events.h"
#include "lockstep/train/history.h"

namespace lockstep {

/// What a call of `Trainer::fit` does at most.
struct FitShape {
  int epochs = 0;
  int validations = 0;
  std::int64_t iterations = 0;  ///< of an epoch
  std::int64_t steps_per_iteration = 1;
  std::int64_t samples_per_iteration = 0;  ///< of all replicas
};

/// Something that takes part in a training: override what you need. Called on every instance, alike
/// and in the order in which callbacks were added, by one thread at a time: the one that calls
/// `fit`, and for the batches of a validation any. What one throws ends the training.
///
/// A job that was started again, or goes on from a checkpoint, walks through `fit` once more, from
/// the epoch that was under way: whoever decides something decides it from the history alone.
class LOCKSTEP_API Callback {
 public:
  virtual ~Callback() = default;

  /// Before the model is made: the model is trained with the options that are set here.
  virtual void prepare(Options& options);
  /// At the begin of each call of `Trainer::fit`, when the model is made.
  virtual void on_fit_begin(const FitShape& shape);
  /// At the end of each call of `Trainer::fit`, after the last epoch.
  virtual void on_fit_end(const History& history, TrainingModel& model);
  /// When `Trainer::fit` ends with an error. The model must not be used.
  virtual void on_fit_failed(const Error& error) noexcept;
  virtual void on_epoch_begin(int epoch, std::int64_t iterations);
  /// After each call of `TrainingModel::step` that has computed something; counted from 1.
  virtual void on_iteration(int epoch, std::int64_t iteration, const IterationResult& result);
  /// After the training of an epoch, before its validation.
  virtual void on_epoch_trained(int epoch, const StepResult& result);
  virtual void on_validation_begin(int epoch, std::int64_t local_batches);
  virtual void on_validation_batch(std::int64_t done);
  virtual void on_validated(int epoch, const StepResult& result);
  /// After an epoch and its validation. False: the training ends here.
  virtual bool goes_on(const History& history);
};

using CallbackPtr = std::shared_ptr<Callback>;

/// Which way a metric gets better.
enum class Goal : std::uint8_t { Least, Greatest };

struct EarlyStopOptions {
  std::string metric = "loss";  ///< of the validation, or where there is none of the training
  Goal goal = Goal::Least;
  int patience = 0;      ///< epochs without a better value that are borne
  double min_delta = 0;  ///< a value has to be better by more than this
};

struct ReportOptions {
  std::string file;  ///< is replaced as a whole
  std::string title = "Training run";
};

namespace callbacks {

/// Takes checkpoints, as `Options::checkpoints` says, and goes on from the newest where there is
/// one.
LOCKSTEP_API CallbackPtr checkpoint(CheckpointOptions options);

/// How the learning rate changes over a training of so many epochs. It is known from the beginning,
/// so that a training goes on as it would have gone.
LOCKSTEP_API CallbackPtr learning_rate(const Schedule& schedule, int epochs);

/// Ends the training when a metric gets no better. Where it goes on from a checkpoint, epochs
/// before it count as well.
///
/// Errors: `Options` for numbers that cannot be meant; from `Trainer::fit`, for a metric that there
/// is not.
LOCKSTEP_API CallbackPtr early_stop(const EarlyStopOptions& options = {});

/// Tells a sink of what happens, on instance 0: `ui::TrainDisplay` shows it. The sink outlives it.
LOCKSTEP_API CallbackPtr log(events::TrainSink& sink);

/// Writes losses and metrics for TensorBoard, into a file of this folder, on instance 0
/// (`monitor::TensorBoardLog` names the curves). Errors: from `Trainer::fit`, `Io`; a disk that is
/// full later on ends the curves, and nothing else.
LOCKSTEP_API CallbackPtr tensorboard(const std::string& folder);

/// Writes a report of the training as one HTML page at the end of each `Trainer::fit`, on instance
/// 0: results, curves, where the time of instance 0 went, events, environment, command and digest.
/// If `fit` ends with an error, the report names the error and has the curves so far. After a
/// restart of the job the curves include those of earlier attempts.
///
/// Errors: from `Trainer::fit`, `Io`, before training if the path cannot be written.
LOCKSTEP_API CallbackPtr report(const ReportOptions& options);

}  // namespace callbacks
}  // namespace lockstep

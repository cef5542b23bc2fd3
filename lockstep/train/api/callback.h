#pragma once

#include <string>

#include "lockstep/base/export.h"
#include "lockstep/events/callback.h"
#include "lockstep/train/api/options.h"
#include "lockstep/train/api/training_model.h"

namespace lockstep {

/// Whether a smaller or a greater value of a metric is better.
enum class Goal : std::uint8_t { Least, Greatest };

struct EarlyStopOptions {
  std::string metric = "loss";  ///< of the validation if there is one, otherwise of the training
  Goal goal = Goal::Least;
  int patience = 0;      ///< tolerated epochs, or validations, without a better value
  double min_delta = 0;  ///< a better value is better by more than this
};

struct ReportOptions {
  std::string file;  ///< replaced as a whole
  std::string title = "Training run";
};

namespace callbacks {

/// Takes checkpoints, as `Options::checkpoints` does, and resumes from the newest one if there is
/// one.
LOCKSTEP_API CallbackPtr checkpoint(CheckpointOptions options);

/// Sets the learning rate schedule of a training over `epochs` epochs.
LOCKSTEP_API CallbackPtr learning_rate(const Schedule& schedule, int epochs);

/// Ends the training when a metric does not improve any more. If the training resumed from a
/// checkpoint, the epochs before it count as well.
///
/// Errors: `Options` for invalid numbers; from `Trainer::fit`, for an unknown metric.
LOCKSTEP_API CallbackPtr early_stop(const EarlyStopOptions& options = {});

/// Adds a callback that the caller owns, for example a `ui::TrainDisplay`. It must outlive the
/// trainer.
LOCKSTEP_API CallbackPtr log(Callback& callback);

/// Writes losses and metrics for TensorBoard into a file in this folder, on instance 0. See
/// `monitor::TensorBoardLog` for the names of the curves. Errors: from `Trainer::fit`, `Io`. If the
/// disk is full later, the curves end with a warning, and the training continues.
LOCKSTEP_API CallbackPtr tensorboard(const std::string& folder);

/// Writes a report of the training as one HTML page at the end of each `Trainer::fit`, on instance
/// 0: results, curves, the time shares of instance 0, events, environment, command and digest.
/// If `fit` ends with an error, the report names the error and has the curves so far. After a
/// restart of the job the curves include those of earlier attempts.
///
/// Errors: from `Trainer::fit`, `Io`, before training if the path cannot be written.
LOCKSTEP_API CallbackPtr report(const ReportOptions& options);

}  // namespace callbacks
}  // namespace lockstep

#pragma once

#include "lockstep/events/train_events.h"
#include "lockstep/events/watchers.h"
#include "lockstep/train/train_request.h"
#include "lockstep/train/train_summary.h"

namespace lockstep::train {

/// What will compute: what was asked for, else GPUs where there are any.
DeviceKind device_of(const TrainRequest& request);

/// The built-in trainer: trains a network of the zoo or of a file on a set of pictures, as one
/// instance of the job that the environment describes. Free of torch, for whoever shows it.
///
/// `sink` is told what happens, on instance 0 alone, and `watchers` what each instance does;
/// everybody gets the summary.
///
/// Errors: those of the data set, the model and the training.
TrainSummary run_training(const TrainRequest& request, events::TrainSink& sink,
                          const events::Watchers& watchers = {});

}  // namespace lockstep::train

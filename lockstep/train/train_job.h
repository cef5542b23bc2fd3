#pragma once

#include "lockstep/events/train_events.h"
#include "lockstep/train/train_request.h"
#include "lockstep/train/train_summary.h"

namespace lockstep::train {

/// The built-in trainer: trains a network of the zoo or of a file on a set of pictures, as one
/// instance of the job that the environment describes. Free of torch, for whoever shows it.
///
/// `sink` is told what happens, on instance 0 alone; everybody gets the summary.
///
/// Errors: those of the data set, the model and the training.
TrainSummary run_training(const TrainRequest& request, events::TrainSink& sink);

}  // namespace lockstep::train

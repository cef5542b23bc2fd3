#pragma once

#include "lockstep/events/train_events.h"
#include "lockstep/events/watchers.h"
#include "lockstep/train/evaluation_summary.h"
#include "lockstep/train/train_request.h"

namespace lockstep::train {

/// The built-in evaluation: computes loss, accuracy and the confusion matrix of a network on a set
/// of pictures, as one instance of the job that the environment describes. Includes no torch.
///
/// On CPUs it divides the cores of the job by itself: one replica for each `threads_per_device`
/// cores, one core if that is unset. Replicas, stages and threads that a launcher has set count
/// only as cores. The result is therefore the same for any number of instances and replicas.
///
/// `sink` is called on instance 0, `watchers` on each instance. Every instance returns the summary.
///
/// Errors: those of the data set, the weights and the model.
EvaluationSummary run_evaluation(const TrainRequest& request, const EvaluationRequest& evaluation,
                                 events::TrainSink& sink, const events::Watchers& watchers = {});

}  // namespace lockstep::train

#pragma once

#include <functional>

#include "lockstep/events/callback.h"
#include "lockstep/events/watchers.h"
#include "lockstep/topology/identity.h"
#include "lockstep/train/jobs/evaluation_summary.h"
#include "lockstep/train/jobs/train_request.h"

namespace lockstep::train {

/// Returns the watchers of an instance. Called once, with the replicas and devices that compute.
using WatchFunction = std::function<events::Watchers(const topology::Identity&)>;

/// The built-in evaluation: computes loss, accuracy and the confusion matrix of a network on a
/// dataset of images, as one instance of the job that the environment describes. Includes no torch.
///
/// On CPUs it divides the cores of the job by itself: one replica for each `threads_per_device`
/// cores, one core if that is unset. Replicas, stages and threads that a launcher has set count
/// only as cores. GPUs use deterministic algorithms. The result is therefore the same for any
/// number of instances and replicas.
///
/// `callback` is called on instance 0, `watch` on each instance. Every instance returns the
/// summary; only instance 0, which reads the checkpoint, sets its `checkpoint`.
///
/// Errors: those of the dataset, the weights and the model.
EvaluationSummary run_evaluation(const TrainRequest& request, const EvaluationRequest& evaluation,
                                 Callback& callback, const WatchFunction& watch);

}  // namespace lockstep::train

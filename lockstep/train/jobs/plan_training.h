#pragma once

#include <optional>
#include <string>

#include "lockstep/events/callback.h"
#include "lockstep/launch/place/job_plan.h"
#include "lockstep/plan/plan.h"
#include "lockstep/train/api/statistics.h"
#include "lockstep/train/jobs/train_request.h"

namespace lockstep::train {

/// The plan of a training, and its origin.
struct PlannedTraining {
  plan::Plan plan;
  std::string key;      ///< of the plan cache: 16 hexadecimal digits
  std::string kept_in;  ///< the file in the cache; empty if it could not be stored
  bool is_cached = false;
  std::optional<GpuMemory> gpu{};  ///< of the instance with the most replicas
};

/// Makes the plan that `lockstep train` would use for this request and this placement, without
/// training. Opens the dataset for its shapes, makes the network, and measures it unless the plan
/// is cached. Calls `on_preparing` and `on_notice` of the callback.
///
/// Errors: those of the dataset and the model; `Options` for an impossible split.
PlannedTraining plan_training(const TrainRequest& request, const launch::JobPlan& job,
                              Callback& callback);

}  // namespace lockstep::train

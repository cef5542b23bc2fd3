#pragma once

#include <optional>
#include <string>

#include "lockstep/events/callback.h"
#include "lockstep/launch/place/job_plan.h"
#include "lockstep/plan/plan.h"
#include "lockstep/train/api/statistics.h"
#include "lockstep/train/jobs/train_request.h"

namespace lockstep::train {

/// A plan, and where it came from.
struct PlannedTraining {
  plan::Plan plan;
  std::string key;      ///< under which it is kept: 16 hexadecimal digits
  std::string kept_in;  ///< the file; nothing where it could not be kept
  bool is_cached = false;
  std::optional<GpuMemory> gpu{};  ///< of the instance that has most replicas
};

/// What `lockstep train` would decide for this request, placed as `job` says, without training:
/// opens the data set for its shapes, makes the network, and measures it unless a plan is cached.
/// Calls `on_preparing` and `on_notice` of the callback.
///
/// Errors: those of opening the set and the model; `Options` for a split that cannot be.
PlannedTraining plan_training(const TrainRequest& request, const launch::JobPlan& job,
                              Callback& callback);

}  // namespace lockstep::train

#pragma once

#include <string>

#include "lockstep/train/jobs/plan_training.h"

namespace lockstep::cli {

/// A plan as tables: stages, instances, devices, memory and buckets. What was not timed is "-".
std::string to_text(const plan::Plan& plan);

/// What `lockstep plan` prints: the plan, and where it is kept.
std::string to_text(const train::PlannedTraining& planned);

}  // namespace lockstep::cli

#pragma once

#include <cstdint>

#include "lockstep/optimizer/step_rules.h"
#include "lockstep/train/engine/step_backend.h"

namespace lockstep::train {

/// Runs one optimizer step of all replicas on a backend, or records it for a later launch.
void run_step(StepBackend& backend, const optimizer::StepRules& rules, std::int64_t index);

}  // namespace lockstep::train

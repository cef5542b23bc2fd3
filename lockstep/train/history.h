#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/train/training_model.h"

namespace lockstep {

/// What an epoch came to: means over all replicas of the job.
struct EpochResult {
  int epoch = 1;
  StepResult training;
  std::optional<StepResult> validation{};
};

/// What a call of `Trainer::fit` came to, epoch by epoch; also of those that an earlier attempt of
/// the job has made, or the job whose checkpoint this one goes on from.
struct History {
  std::vector<EpochResult> epochs{};
  bool stopped_early = false;
};

/// "loss", or a metric by its name: of the validation where there is one, else of the training.
/// Errors: `Options`, with the names that there are, for another one.
LOCKSTEP_API double value_of(const EpochResult& result, std::string_view metric);

}  // namespace lockstep

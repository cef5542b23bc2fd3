#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/export.h"

namespace lockstep {

namespace events {

/// A number that training shows beside the loss: "acc" in percent.
struct NamedValue {
  std::string name;
  double value = 0;
};

}  // namespace events

/// Loss and metrics of one or more optimizer steps, averaged over all replicas of the job.
struct StepResult {
  double loss = 0;
  double accuracy = 0;  ///< the metric "acc", in percent; NaN if there is none
  std::vector<events::NamedValue> metrics{};
  std::vector<float> replica_losses{};  ///< by replica
  bool skipped = false;  ///< loss scaling found an overflow, so no weight was changed
  /// An earlier run, which this run continues, has made this step, so nothing was computed. Loss
  /// and metrics are the means of its epoch so far.
  bool done_before = false;
};

/// The result of one call of `TrainingModel::step`: its last optimizer step, or the steps that the
/// output mode of the options selects.
struct IterationResult : StepResult {
  std::vector<StepResult> steps{};
};

/// The result of an epoch.
struct EpochResult {
  int epoch = 1;
  StepResult training;
  std::optional<StepResult> validation{};
};

/// The results of one call of `Trainer::fit`, by epoch. It includes the epochs that an earlier
/// attempt of the job has trained, and those of the run whose checkpoint this run continues.
struct History {
  std::vector<EpochResult> epochs{};
  bool stopped_early = false;
};

/// The value of "loss" or of a metric: of the validation if there is one, otherwise of the
/// training. Errors: `Options` for an unknown name, with the known names.
LOCKSTEP_API double value_of(const EpochResult& result, std::string_view metric);

}  // namespace lockstep

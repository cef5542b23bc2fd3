#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "lockstep/optimizer/step_rules.h"
#include "lockstep/train/state/state_layout.h"

namespace lockstep::train {

/// Loss and metrics of one optimizer step, averaged over all replicas of the job.
struct StepOutput {
  double loss = 0;
  std::vector<double> metrics;
  std::vector<float> replica_losses;  ///< by replica
  bool skipped = false;               ///< loss scaling found a number that is not finite
};

/// The position of a step in the program's loops and in the data.
struct StepPosition {
  std::int64_t epoch = 0;  ///< of the loader
  bool begins_epoch = false;
  std::int64_t loop = 0;        ///< over epochs, from 1; 0: none
  std::int64_t loop_epoch = 0;  ///< of that loop, from 1
  std::int64_t loader = 0;      ///< number of the loader
  std::int64_t samples = 1;     ///< of all replicas in this step
};

/// The accounting of training steps: turns the totals of a step into its result and into the next
/// progress, and refuses a step that diverged. All backends use it, so that a step has the same
/// meaning wherever it is computed.
///
/// Errors: `Diverged`. One thread at a time.
class StepAccount {
 public:
  struct Parts {
    const WeightLayout& weights;
    const LeafTotals& totals;
    optimizer::StepRules rules{};
    std::vector<double> metric_scales{};  ///< by metric; 100 for a metric in percent
    std::function<void(const std::string&)> tell = [](const std::string&) {};
  };
  explicit StepAccount(Parts parts) : parts_(std::move(parts)) {}

  /// Sets the position of the next step. Later steps are in the same epoch.
  void begin(const StepPosition& position) { position_ = position; }

  /// Refuses losses that are not finite, unless loss scaling can skip the step. Reports, once, the
  /// parameters that have no gradient.
  void check(std::span<const float> totals, const Progress& before);
  /// The progress after this step.
  Progress advance(const Progress& before, std::span<const float> totals, bool is_skipped) const;
  /// The result of a step that is committed. Refuses a skipped step if the loss scale cannot fall.
  StepOutput report(std::span<const float> totals, const Progress& before, bool is_skipped);

 private:
  StepOutput output_of(std::span<const float> totals) const;
  void check_losses(std::span<const float> totals, const Progress& before) const;
  void name_idle_parameters(std::span<const float> totals);

  Parts parts_;
  StepPosition position_;
  std::vector<float> last_losses_;
  std::set<std::string> named_;  ///< parameters that were reported
};

}  // namespace lockstep::train

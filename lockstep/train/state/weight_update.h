#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "lockstep/comm/sharded_update.h"
#include "lockstep/optimizer/optimizer.h"
#include "lockstep/optimizer/step_rules.h"
#include "lockstep/train/state/state_layout.h"

namespace lockstep::train {

/// How a training turns the sum of all leaves into new weights.
struct UpdateRules {
  Optimizer optimizer;
  int replicas = 1;
  std::int64_t divisor = 1;  ///< of the summed gradient: G·R for mean reduction, 1 for sum
  optimizer::StepRules step_rules{};

  /// Whether a decision needs the whole sum, so that no weight may change before.
  bool need_whole_sum() const {
    return step_rules.measures_gradients() || step_rules.has_trust_ratios;
  }
};

UpdateRules update_rules(const Optimizer& optimizer, int replicas, std::int64_t divisor,
                         bool has_loss_scaling);

/// The decisions of one step. Every instance makes the same decisions, because it makes them from
/// the same numbers in the same order.
struct StepDecision {
  bool is_skipped = false;      ///< no weight changes
  float clip = 1;               ///< the factor of gradients
  std::vector<double> trust{};  ///< LAMB: by parameter; otherwise empty
};

/// The numbers of one step that an update reads, and the version of the state that it writes.
struct UpdateInput {
  const std::byte* current = nullptr;
  std::byte* next = nullptr;
  std::span<const float> totals{};
  double lr_factor = 1;  ///< of the schedule
};

/// Writes the next version of the state on a CPU, part by part: optimizer, clipping, loss scaling,
/// averages of buffers and of weights. Keeps nothing between two calls. Any thread may call a
/// member.
class WeightUpdate {
 public:
  using Part = comm::ShardedUpdate::Part;
  static constexpr int kValuesPerBlock = 4;

  /// The layouts must outlive this object.
  WeightUpdate(UpdateRules rules, const WeightLayout& layout, const StateShape& shape,
               const LeafTotals& totals);

  const UpdateRules& rules() const noexcept { return rules_; }

  void measure_gradients(const Part& part, std::span<double> values) const;
  /// `measured` has the values of all blocks. It is read only if the rules measure gradients.
  StepDecision decide(std::span<const double> measured, std::span<const float> totals) const;
  void measure_trust(const Part& part, const UpdateInput& input, const StepDecision& decision,
                     std::span<double> values) const;
  /// Returns the trust ratio of each parameter.
  std::vector<double> decide_trust(std::span<const double> measured) const;
  /// Writes the next version of a part's elements.
  void update(const Part& part, const UpdateInput& input, const StepDecision& decision) const;
  /// Makes the writes visible to the other instances. Must be called after the last part.
  void end_parts() const noexcept;
  /// Writes how often each parameter was updated. Only one instance of a host calls it.
  void count_updates(const UpdateInput& input, const StepDecision& decision) const;

 private:
  /// Elements of one parameter.
  struct Run {
    const PlacedParameter& parameter;
    std::size_t index;  ///< of the parameter
    std::size_t first;  ///< element
    std::size_t count;
    std::span<float> gradient;
  };

  Run run_of(const Part& part) const;
  Slice slice_of(const Run& run, const UpdateInput& input) const;
  UpdateFacts facts_of(const Run& run, const UpdateInput& input) const;
  void update_streaming(const Run& run, const UpdateInput& input, float clip, double trust) const;
  void copy_unchanged(const Run& run, const UpdateInput& input) const;
  void update_average(const Run& run, const UpdateInput& input) const;
  void update_buffer(const Part& part, const UpdateInput& input, bool is_skipped) const;

  UpdateRules rules_;
  const WeightLayout* layout_;
  const StateShape* shape_;
  const LeafTotals* totals_;
  std::size_t num_states_;
  bool streams_;  ///< a version of the state is so large that it would displace the cache
};

}  // namespace lockstep::train

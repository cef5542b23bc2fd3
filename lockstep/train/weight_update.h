#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "lockstep/comm/sharded_update.h"
#include "lockstep/optimizer/optimizer.h"
#include "lockstep/train/leaf_totals.h"
#include "lockstep/train/train_state.h"

namespace lockstep::train {

/// What an update does with the sum of the leaves, for a whole training.
struct UpdateRules {
  Optimizer optimizer;
  int replicas = 1;
  std::int64_t divisor = 1;       ///< of the summed gradient
  bool has_loss_scaling = false;  ///< a step with a gradient that is not finite is skipped
};

/// Leaves and state of a training, as its instances share them; this one brings so many leaves.
comm::ShardedUpdate::Shape update_shape(const WeightLayout& weights, const StateShape& shape,
                                        const LeafTotals& totals, int leaves);

/// The loss scale grows after so many steps without an overflow.
inline constexpr std::int64_t kStepsToGrow = 2000;
inline constexpr double kLargestLossScale = 0x1p24;

/// Turns the sum of the leaves into the next version of the state: optimizer, clipping, loss
/// scaling, averages of buffers and of weights.
///
/// All that it decides for a whole step is derived from numbers that every instance has, in an
/// order that does not depend on who measured them.
class WeightUpdate {
 public:
  WeightUpdate(UpdateRules rules, const WeightLayout& layout, const StateShape& shape,
               const LeafTotals& totals);

  static constexpr int kValuesPerBlock = 4;

  /// What `ShardedUpdate::step` is to do, with the schedule's factor of this step. `finish` adds to
  /// the progress what else has changed, on rank 0.
  using AddProgress = std::function<void(Progress& next, bool skipped, std::byte* next_state)>;
  comm::ShardedUpdate::Step step(double lr_factor, AddProgress finish) const;

  /// Of summed gradients.
  std::int64_t divisor() const noexcept { return rules_.divisor; }

  /// Whether the step that is being made, or was just made, changes no weight.
  bool is_skipped(std::span<const double> measured, std::span<const float> totals) const;

 private:
  using Part = comm::ShardedUpdate::Part;
  /// One parameter's elements within a part.
  struct Run {
    const PlacedParameter& parameter;
    std::size_t first;  ///< among all elements
    std::size_t count;
  };

  std::size_t index_of(const PlacedParameter& parameter) const;
  void count_updates(const Part& whole, bool skipped) const;
  float clip_factor(std::span<const double> measured) const;
  double trust_of(const PlacedParameter& parameter, std::span<const double> measured) const;
  Slice slice_of(const Part& part, const Run& run) const;
  UpdateFacts facts_of(const Part& part, const PlacedParameter& parameter, double lr_factor) const;

  void measure_gradient(const Part& part, std::span<double> values) const;
  void measure_trust(const Part& part, double lr_factor, std::span<double> values) const;
  void update(const Part& part, double lr_factor) const;
  void update_run(const Part& part, const Run& run, double lr_factor, float clip) const;
  void update_through_scratch(const Part& part, const Run& run, double lr_factor, float clip) const;
  void keep(const Part& part, const Run& run) const;
  void average_weights(const Part& part, const Run& run) const;
  void update_buffers(const Part& part, bool skipped) const;

  UpdateRules rules_;
  const WeightLayout* layout_;
  const StateShape* shape_;
  const LeafTotals* totals_;
  bool streams_;  ///< a version of the state is larger than any cache
};

}  // namespace lockstep::train

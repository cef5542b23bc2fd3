#include "lockstep/train/state/weight_update.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "lockstep/optimizer/stream_copy.h"
#include "lockstep/optimizer/update_kernels.h"

namespace lockstep::train {
namespace {

// The measured values of each block.
constexpr std::size_t kSquares = 0;        // of gradients
constexpr std::size_t kNotFinite = 1;      // number of gradients
constexpr std::size_t kWeightSquares = 2;  // for LAMB
constexpr std::size_t kDirectionSquares = 3;

constexpr std::size_t kStreamBytes = std::size_t{16} << 20;
constexpr std::size_t kPiece = 2048;

double value_of(std::span<const double> measured, std::size_t block, std::size_t index) {
  return measured[block * WeightUpdate::kValuesPerBlock + index];
}

void copy(std::span<const float> from, std::span<float> to, std::size_t first, std::size_t count) {
  std::memcpy(to.data() + first, from.data() + first, count * sizeof(float));
}

/// The index of the tensor that contains an element. Every block lies within one tensor.
template <typename Placed>
std::size_t index_of(const std::vector<Placed>& tensors, std::int64_t element) {
  const auto next = std::ranges::upper_bound(tensors, element, {}, &Placed::first);
  return static_cast<std::size_t>(next - tensors.begin()) - 1;
}

/// Number of elements of a tensor in a part; the rest aligns the next tensor.
std::size_t count_in(const PlacedTensor& tensor, const comm::ShardedUpdate::Part& part) {
  const auto end = std::min(part.first + std::ssize(part.sum), tensor.first + tensor.count);
  return static_cast<std::size_t>(std::max<std::int64_t>(0, end - part.first));
}

}  // namespace

UpdateRules update_rules(const Optimizer& optimizer, int replicas, std::int64_t divisor,
                         bool has_loss_scaling) {
  return {.optimizer = optimizer,
          .replicas = replicas,
          .divisor = divisor,
          .step_rules = {.clip_norm = optimizer.clip_norm().value_or(0),
                         .has_loss_scaling = has_loss_scaling,
                         .has_trust_ratios = optimizer.kind() == OptimizerKind::Lamb,
                         .average_decay = optimizer.average_decay().value_or(0)}};
}

WeightUpdate::WeightUpdate(UpdateRules rules, const WeightLayout& layout, const StateShape& shape,
                           const LeafTotals& totals)
    : rules_(std::move(rules)),
      layout_(&layout),
      shape_(&shape),
      totals_(&totals),
      num_states_(static_cast<std::size_t>(rules_.optimizer.num_states())),
      streams_(shape.bytes() >= kStreamBytes) {}

void WeightUpdate::measure_gradients(const Part& part, std::span<double> values) const {
  if (part.first >= layout_->num_parameters) return;
  values[kSquares] = optimizer::sum_of_squares(part.sum);
  values[kNotFinite] = static_cast<double>(optimizer::count_not_finite(part.sum));
}

StepDecision WeightUpdate::decide(std::span<const double> measured,
                                  std::span<const float> totals) const {
  if (!rules_.step_rules.measures_gradients()) return {};
  const auto losses = totals_->losses(totals);
  double squares = 0;
  bool is_finite = std::ranges::all_of(losses, [](float loss) { return std::isfinite(loss); });
  for (std::size_t block = 0; block < layout_->blocks.size(); ++block) {
    squares += value_of(measured, block, kSquares);
    if (value_of(measured, block, kNotFinite) > 0) is_finite = false;
  }
  return {.is_skipped = rules_.step_rules.skips(is_finite),
          .clip = rules_.step_rules.clip_factor(squares)};
}

void WeightUpdate::measure_trust(const Part& part, const UpdateInput& input,
                                 const StepDecision& decision, std::span<double> values) const {
  if (part.first >= layout_->num_parameters) return;
  const auto run = run_of(part);
  const auto sums = optimizer::trust_sums(rules_.optimizer, slice_of(run, input),
                                          facts_of(run, input), decision.clip);
  values[kWeightSquares] = sums.weights;
  values[kDirectionSquares] = sums.direction;
}

std::vector<double> WeightUpdate::decide_trust(std::span<const double> measured) const {
  std::vector<double> trust;
  for (const auto& parameter : layout_->parameters) {
    optimizer::TrustSums sums;
    for (std::size_t i = 0; i < parameter.num_blocks; ++i) {
      sums.weights += value_of(measured, parameter.first_block + i, kWeightSquares);
      sums.direction += value_of(measured, parameter.first_block + i, kDirectionSquares);
    }
    trust.push_back(optimizer::StepRules::trust_ratio(sums.weights, sums.direction));
  }
  return trust;
}

WeightUpdate::Run WeightUpdate::run_of(const Part& part) const {
  const auto index = index_of(layout_->parameters, part.first);
  const auto& parameter = layout_->parameters[index];
  const auto count = count_in(parameter, part);
  return {parameter, index, static_cast<std::size_t>(part.first), count, part.sum.first(count)};
}

Slice WeightUpdate::slice_of(const Run& run, const UpdateInput& input) const {
  Slice slice{.gradient = run.gradient,
              .weights = shape_->weights(input.current).subspan(run.first, run.count),
              .next_weights = shape_->weights(input.next).subspan(run.first, run.count),
              .state = {},
              .next_state = {}};
  for (std::size_t i = 0; i < num_states_; ++i) {
    slice.state[i] = shape_->kept(input.current, i).subspan(run.first, run.count);
    slice.next_state[i] = shape_->kept(input.next, i).subspan(run.first, run.count);
  }
  return slice;
}

UpdateFacts WeightUpdate::facts_of(const Run& run, const UpdateInput& input) const {
  return {.parameter = run.parameter.name,
          .lr = run.parameter.settings.lr * input.lr_factor,
          .weight_decay = run.parameter.settings.weight_decay,
          .count = shape_->counts(input.current)[run.index] + 1};
}

void WeightUpdate::update(const Part& part, const UpdateInput& input,
                          const StepDecision& decision) const {
  if (part.first >= layout_->num_parameters) {
    return update_buffer(part, input, decision.is_skipped);
  }
  const auto run = run_of(part);
  if (decision.is_skipped || totals_->changed(input.totals)[run.index] == 0) {
    return copy_unchanged(run, input);
  }
  const auto trust = decision.trust.empty() ? 1 : decision.trust[run.index];
  if (streams_) {
    update_streaming(run, input, decision.clip, trust);
  } else {
    optimizer::update(rules_.optimizer, slice_of(run, input), facts_of(run, input), decision.clip,
                      trust);
  }
  update_average(run, input);
}

/// Writes piece by piece to a scratch that stays in the cache, and from there to memory past the
/// caches. In this step, only the average reads the new weights again.
void WeightUpdate::update_streaming(const Run& run, const UpdateInput& input, float clip,
                                    double trust) const {
  std::array<std::array<float, kPiece>, 3> scratch;
  const auto facts = facts_of(run, input);
  for (std::size_t done = 0; done < run.count; done += kPiece) {
    const auto count = std::min(kPiece, run.count - done);
    const auto to = slice_of(
        {run.parameter, run.index, run.first + done, count, run.gradient.subspan(done, count)},
        input);
    auto slice = to;
    slice.next_weights = std::span(scratch[0]).first(count);
    for (std::size_t i = 0; i < num_states_; ++i) {
      slice.next_state[i] = std::span(scratch[i + 1]).first(count);
    }
    optimizer::update(rules_.optimizer, slice, facts, clip, trust);
    optimizer::stream_piece(slice.next_weights, to.next_weights);
    for (std::size_t i = 0; i < num_states_; ++i) {
      optimizer::stream_piece(slice.next_state[i], to.next_state[i]);
    }
  }
}

void WeightUpdate::end_parts() const noexcept {
  if (streams_) optimizer::end_pieces();
}

/// For a parameter that has no gradient on any replica, and for all parameters in a skipped step.
void WeightUpdate::copy_unchanged(const Run& run, const UpdateInput& input) const {
  copy(shape_->weights(input.current), shape_->weights(input.next), run.first, run.count);
  for (std::size_t i = 0; i < num_states_; ++i) {
    copy(shape_->kept(input.current, i), shape_->kept(input.next, i), run.first, run.count);
  }
  if (!rules_.step_rules.averages()) return;
  copy(shape_->average(input.current), shape_->average(input.next), run.first, run.count);
}

void WeightUpdate::update_average(const Run& run, const UpdateInput& input) const {
  if (!rules_.step_rules.averages()) return;
  optimizer::average(rules_.step_rules.average_decay,
                     shape_->average(input.current).subspan(run.first, run.count),
                     shape_->weights(input.next).subspan(run.first, run.count),
                     shape_->average(input.next).subspan(run.first, run.count));
}

/// A buffer that a replica changed becomes the mean over replicas. Otherwise, and in a skipped
/// step, which may have found infinities, the buffer keeps its bits.
void WeightUpdate::update_buffer(const Part& part, const UpdateInput& input,
                                 bool is_skipped) const {
  const auto changed = totals_->changed(input.totals).subspan(layout_->parameters.size());
  const auto index = index_of(layout_->buffers, part.first);
  const auto bytes = count_in(layout_->buffers[index], part) * sizeof(float);
  auto* const to = shape_->weights(input.next).data() + part.first;
  if (is_skipped || changed[index] == 0) {
    std::memcpy(to, shape_->weights(input.current).data() + part.first, bytes);
    return;
  }
  const auto sum = part.sum.first(bytes / sizeof(float));
  optimizer::divide(static_cast<float>(rules_.replicas), sum);
  std::memcpy(to, sum.data(), bytes);
}

void WeightUpdate::count_updates(const UpdateInput& input, const StepDecision& decision) const {
  const auto changed = totals_->changed(input.totals);
  const auto current = shape_->counts(input.current);
  const auto next = shape_->counts(input.next);
  for (std::size_t i = 0; i < next.size(); ++i) {
    next[i] = current[i] + (!decision.is_skipped && changed[i] != 0 ? 1 : 0);
  }
}

}  // namespace lockstep::train

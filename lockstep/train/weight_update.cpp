#include "lockstep/train/weight_update.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "lockstep/optimizer/stream_copy.h"
#include "lockstep/optimizer/update_kernels.h"

namespace lockstep::train {
namespace {

// What is measured of each block.
constexpr std::size_t kSquares = 0;        // of gradients
constexpr std::size_t kNotFinite = 1;      // gradients
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

/// The first tensor that ends behind an element.
template <typename Placed>
auto first_behind(const std::vector<Placed>& tensors, std::int64_t element) {
  return std::partition_point(tensors.begin(), tensors.end(), [&](const Placed& placed) {
    return placed.first + placed.count <= element;
  });
}

/// Calls `action(tensor, first, end)` for each tensor that has elements among [begin, end).
template <typename Placed, typename Action>
void for_tensors(const std::vector<Placed>& tensors, std::int64_t begin, std::int64_t end,
                 const Action& action) {
  for (auto it = first_behind(tensors, begin); it != tensors.end() && it->first < end; ++it) {
    action(*it, std::max(begin, it->first), std::min(end, it->first + it->count));
  }
}

}  // namespace

comm::ShardedUpdate::Shape update_shape(const WeightLayout& weights, const StateShape& shape,
                                        const LeafTotals& totals, int leaves) {
  return {.count = weights.num_elements,
          .num_totals = static_cast<std::int64_t>(totals.count()),
          .num_leaves = leaves,
          .blocks = weights.blocks,
          .values_per_block = WeightUpdate::kValuesPerBlock,
          .num_early = weights.num_parameters,
          .state_bytes = shape.bytes(),
          .common_bytes = CommonShape(weights).bytes()};
}

WeightUpdate::WeightUpdate(UpdateRules rules, const WeightLayout& layout, const StateShape& shape,
                           const LeafTotals& totals)
    : rules_(std::move(rules)),
      layout_(&layout),
      shape_(&shape),
      totals_(&totals),
      streams_(shape.bytes() >= kStreamBytes) {}

comm::ShardedUpdate::Step WeightUpdate::step(double lr_factor, AddProgress finish) const {
  comm::ShardedUpdate::Step step{.divisor = rules_.divisor, .num_divided = layout_->num_parameters};
  if (rules_.has_loss_scaling || rules_.optimizer.clip_norm()) {
    step.measures.emplace_back([this](std::size_t, const Part& part, std::span<double> values) {
      measure_gradient(part, values);
    });
  }
  if (rules_.optimizer.kind() == OptimizerKind::Lamb) {
    step.measures.emplace_back(
        [this, lr_factor](std::size_t, const Part& part, std::span<double> values) {
          measure_trust(part, lr_factor, values);
        });
  }
  step.update = [this, lr_factor](const Part& part) { update(part, lr_factor); };
  if (streams_) step.end_updates = optimizer::end_pieces;
  step.finish = [this, finish = std::move(finish)](const Part& whole) {
    const bool skipped = is_skipped(whole.measured, whole.totals);
    count_updates(whole, skipped);
    auto& next = shape_->progress(whole.next) = shape_->progress(whole.current);
    ++next.steps;
    if (!skipped) ++next.updates;
    finish(next, skipped, whole.next);
  };
  return step;
}

std::size_t WeightUpdate::index_of(const PlacedParameter& parameter) const {
  return static_cast<std::size_t>(&parameter - layout_->parameters.data());
}

void WeightUpdate::count_updates(const Part& whole, bool skipped) const {
  const auto changed = totals_->changed(whole.totals);
  const auto current = shape_->counts(whole.current);
  const auto next = shape_->counts(whole.next);
  for (std::size_t i = 0; i < next.size(); ++i) {
    next[i] = current[i] + (!skipped && changed[i] != 0 ? 1 : 0);
  }
}

bool WeightUpdate::is_skipped(std::span<const double> measured,
                              std::span<const float> totals) const {
  if (!rules_.has_loss_scaling) return false;
  for (const float loss : totals_->losses(totals)) {
    if (!std::isfinite(loss)) return true;
  }
  for (std::size_t block = 0; block * kValuesPerBlock < measured.size(); ++block) {
    if (value_of(measured, block, kNotFinite) > 0) return true;
  }
  return false;
}

/// As `torch::nn::utils::clip_grad_norm_`.
float WeightUpdate::clip_factor(std::span<const double> measured) const {
  const auto most = rules_.optimizer.clip_norm();
  if (!most) return 1;
  double squares = 0;
  for (std::size_t block = 0; block * kValuesPerBlock < measured.size(); ++block) {
    squares += value_of(measured, block, kSquares);
  }
  return static_cast<float>(std::min(1.0, *most / (std::sqrt(squares) + 1e-6)));
}

double WeightUpdate::trust_of(const PlacedParameter& parameter,
                              std::span<const double> measured) const {
  if (rules_.optimizer.kind() != OptimizerKind::Lamb) return 1;
  optimizer::TrustSums sums;
  for (std::size_t i = 0; i < parameter.num_blocks; ++i) {
    sums.weights += value_of(measured, parameter.first_block + i, kWeightSquares);
    sums.direction += value_of(measured, parameter.first_block + i, kDirectionSquares);
  }
  return optimizer::trust_ratio(sums);
}

void WeightUpdate::measure_gradient(const Part& part, std::span<double> values) const {
  if (part.first >= layout_->num_parameters) return;
  values[kSquares] = optimizer::sum_of_squares(part.sum);
  values[kNotFinite] = static_cast<double>(optimizer::count_not_finite(part.sum));
}

void WeightUpdate::measure_trust(const Part& part, double lr_factor,
                                 std::span<double> values) const {
  const auto clip = clip_factor(part.measured);
  for_tensors(layout_->parameters, part.first, part.first + std::ssize(part.sum),
              [&](const PlacedParameter& parameter, std::int64_t first, std::int64_t end) {
                const Run run{parameter, static_cast<std::size_t>(first),
                              static_cast<std::size_t>(end - first)};
                const auto sums = optimizer::trust_sums(rules_.optimizer, slice_of(part, run),
                                                        facts_of(part, parameter, lr_factor), clip);
                values[kWeightSquares] = sums.weights;
                values[kDirectionSquares] = sums.direction;
              });
}

Slice WeightUpdate::slice_of(const Part& part, const Run& run) const {
  const auto at = run.first - static_cast<std::size_t>(part.first);
  Slice slice{.gradient = part.sum.subspan(at, run.count),
              .weights = shape_->weights(part.current).subspan(run.first, run.count),
              .next_weights = shape_->weights(part.next).subspan(run.first, run.count),
              .state = {},
              .next_state = {}};
  for (std::size_t i = 0; i < static_cast<std::size_t>(rules_.optimizer.num_states()); ++i) {
    slice.state[i] = shape_->kept(part.current, i).subspan(run.first, run.count);
    slice.next_state[i] = shape_->kept(part.next, i).subspan(run.first, run.count);
  }
  return slice;
}

UpdateFacts WeightUpdate::facts_of(const Part& part, const PlacedParameter& parameter,
                                   double lr_factor) const {
  return {.parameter = parameter.name,
          .lr = parameter.settings.lr * lr_factor,
          .weight_decay = parameter.settings.weight_decay,
          .count = shape_->counts(part.current)[index_of(parameter)] + 1};
}

void WeightUpdate::update(const Part& part, double lr_factor) const {
  const bool skipped = is_skipped(part.measured, part.totals);
  const auto clip = clip_factor(part.measured);
  const auto changed = totals_->changed(part.totals);
  for_tensors(layout_->parameters, part.first, part.first + std::ssize(part.sum),
              [&](const PlacedParameter& parameter, std::int64_t first, std::int64_t end) {
                const Run run{parameter, static_cast<std::size_t>(first),
                              static_cast<std::size_t>(end - first)};
                if (skipped || changed[index_of(parameter)] == 0) {
                  keep(part, run);
                } else {
                  update_run(part, run, lr_factor, clip);
                }
              });
  update_buffers(part, skipped);
}

void WeightUpdate::update_run(const Part& part, const Run& run, double lr_factor,
                              float clip) const {
  if (streams_) {
    update_through_scratch(part, run, lr_factor, clip);
  } else {
    optimizer::update(rules_.optimizer, slice_of(part, run),
                      facts_of(part, run.parameter, lr_factor), clip,
                      trust_of(run.parameter, part.measured));
  }
  average_weights(part, run);
}

/// What is written is not read again in this step: it goes to memory from a scratch that stays in
/// the cache, piece by piece.
void WeightUpdate::update_through_scratch(const Part& part, const Run& run, double lr_factor,
                                          float clip) const {
  std::array<std::array<float, kPiece>, 3> scratch;
  const auto facts = facts_of(part, run.parameter, lr_factor);
  const auto trust = trust_of(run.parameter, part.measured);
  const auto states = static_cast<std::size_t>(rules_.optimizer.num_states());
  for (std::size_t done = 0; done < run.count; done += kPiece) {
    const auto count = std::min(kPiece, run.count - done);
    const auto to = slice_of(part, {run.parameter, run.first + done, count});
    auto slice = to;
    slice.next_weights = std::span(scratch[0]).first(count);
    for (std::size_t i = 0; i < states; ++i) {
      slice.next_state[i] = std::span(scratch[i + 1]).first(count);
    }
    optimizer::update(rules_.optimizer, slice, facts, clip, trust);
    optimizer::stream_piece(slice.next_weights, to.next_weights);
    for (std::size_t i = 0; i < states; ++i) {
      optimizer::stream_piece(slice.next_state[i], to.next_state[i]);
    }
  }
}

/// What no replica had a gradient for, and all in a skipped step, stays as it is.
void WeightUpdate::keep(const Part& part, const Run& run) const {
  copy(shape_->weights(part.current), shape_->weights(part.next), run.first, run.count);
  for (std::size_t i = 0; i < static_cast<std::size_t>(rules_.optimizer.num_states()); ++i) {
    copy(shape_->kept(part.current, i), shape_->kept(part.next, i), run.first, run.count);
  }
  if (!rules_.optimizer.average_decay()) return;
  copy(shape_->average(part.current), shape_->average(part.next), run.first, run.count);
}

void WeightUpdate::average_weights(const Part& part, const Run& run) const {
  const auto decay = rules_.optimizer.average_decay();
  if (!decay) return;
  optimizer::average(*decay, shape_->average(part.current).subspan(run.first, run.count),
                     shape_->weights(part.next).subspan(run.first, run.count),
                     shape_->average(part.next).subspan(run.first, run.count));
}

/// Those that a replica changed become the mean over replicas; the others, and all in a skipped
/// step, which may have found infinities, stay what they are, to the bit.
void WeightUpdate::update_buffers(const Part& part, bool skipped) const {
  const auto changed = totals_->changed(part.totals).subspan(layout_->parameters.size());
  const auto* current = shape_->weights(part.current).data();
  auto* next = shape_->weights(part.next).data();
  for_tensors(layout_->buffers, part.first, part.first + std::ssize(part.sum),
              [&](const PlacedTensor& buffer, std::int64_t first, std::int64_t end) {
                const auto index = static_cast<std::size_t>(&buffer - layout_->buffers.data());
                const auto count = static_cast<std::size_t>(end - first);
                if (skipped || changed[index] == 0) {
                  std::memcpy(next + first, current + first, count * sizeof(float));
                  return;
                }
                const auto sum =
                    part.sum.subspan(static_cast<std::size_t>(first - part.first), count);
                optimizer::divide(static_cast<float>(rules_.replicas), sum);
                std::memcpy(next + first, sum.data(), count * sizeof(float));
              });
}

}  // namespace lockstep::train

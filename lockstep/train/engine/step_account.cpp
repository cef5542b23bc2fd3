#include "lockstep/train/engine/step_account.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "lockstep/base/error.h"

namespace lockstep::train {

void StepAccount::check(std::span<const float> totals, const Progress& before) {
  check_losses(totals, before);
  name_idle_parameters(totals);
}

void StepAccount::check_losses(std::span<const float> totals, const Progress& before) const {
  if (parts_.rules.has_loss_scaling && before.loss_scale > 1) return;
  const auto losses = parts_.totals.losses(totals);
  for (std::size_t replica = 0; replica < losses.size(); ++replica) {
    if (std::isfinite(losses[replica])) continue;
    const auto last = last_losses_.empty() ? std::string("there was no step before it")
                                           : fmt::format("the last finite losses were {:.6g}",
                                                         fmt::join(last_losses_, ", "));
    throw Error(
        ErrorKind::Diverged,
        fmt::format("train: the loss of replica {} is {} at step {}; {}", replica,
                    std::isnan(losses[replica]) ? std::abs(losses[replica]) : losses[replica],
                    before.steps + 1, last),
        "a lower learning rate, a warm-up, or gradient clipping (--lr, --warmup-epochs, "
        "--clip-norm)");
  }
}

void StepAccount::name_idle_parameters(std::span<const float> totals) {
  const auto changed = parts_.totals.changed(totals);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < parts_.weights.parameters.size(); ++i) {
    const auto& name = parts_.weights.parameters[i].name;
    if (changed[i] == 0 && named_.insert(name).second) names.push_back(name);
  }
  if (names.empty()) return;
  parts_.tell(
      fmt::format("no replica has a gradient for these parameters, so they are not updated: {}",
                  fmt::join(names, ", ")));
}

Progress StepAccount::advance(const Progress& before, std::span<const float> totals,
                              bool is_skipped) const {
  auto next = before;
  ++next.steps;
  if (!is_skipped) ++next.updates;
  if (next.epoch != position_.epoch || position_.begins_epoch) {
    next.epoch = position_.epoch;
    next.epoch_steps = 0;
    next.epoch_loss = 0;
    next.epoch_metrics = {};
  }
  if (next.steps == 1) next.loader = position_.loader;
  if (next.loader != position_.loader) next.loader = kSeveralLoaders;
  next.loop = position_.loop;
  next.loop_epoch = position_.loop_epoch;
  next.is_stopped = StepRequests::is_stop(parts_.totals.requests(totals)) ? 1 : 0;
  const auto output = output_of(totals);
  ++next.epoch_steps;
  next.epoch_loss += output.loss;
  for (std::size_t i = 0; i < output.metrics.size(); ++i) {
    next.epoch_metrics[i] += output.metrics[i];
  }
  const auto scale = parts_.rules.next_scale({next.loss_scale, next.good_steps}, is_skipped);
  next.loss_scale = scale.value;
  next.good_steps = scale.good_steps;
  return next;
}

StepOutput StepAccount::report(std::span<const float> totals, const Progress& before,
                               bool is_skipped) {
  auto output = output_of(totals);
  output.skipped = is_skipped;
  position_.begins_epoch = false;
  if (is_skipped && before.loss_scale <= 1) {
    throw Error(ErrorKind::Diverged,
                fmt::format("train: gradients are not finite at step {}, with a loss scale of 1; "
                            "the losses were {:.6g}",
                            before.steps + 1, fmt::join(output.replica_losses, ", ")),
                "--half bf16, a lower learning rate, or gradient clipping");
  }
  if (std::isfinite(output.loss)) last_losses_ = output.replica_losses;
  return output;
}

StepOutput StepAccount::output_of(std::span<const float> totals) const {
  StepOutput output;
  const auto losses = parts_.totals.losses(totals);
  output.replica_losses.assign(losses.begin(), losses.end());
  for (const float loss : losses) output.loss += loss;
  output.loss /= static_cast<double>(losses.size());
  const auto sums = parts_.totals.metrics(totals);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    output.metrics.push_back(parts_.metric_scales[i] * sums[i] /
                             static_cast<double>(position_.samples));
  }
  return output;
}

}  // namespace lockstep::train

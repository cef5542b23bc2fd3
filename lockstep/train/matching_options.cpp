#include "lockstep/train/matching_options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

void add_schedule(const Options& options, NamedOptions& to) {
  const auto& schedule = options.schedule();
  to.emplace_back("schedule", name_of(schedule.kind));
  if (schedule.warmup_epochs > 0) {
    to.emplace_back("warmup-epochs", fmt::format("{}", schedule.warmup_epochs));
  }
  switch (schedule.kind) {
    case ScheduleKind::Constant:
      return;  // one may train for longer than was planned
    case ScheduleKind::Step:
      to.emplace_back("step-epochs", fmt::format("{}", schedule.step_epochs));
      to.emplace_back("step-factor", fmt::format("{}", schedule.step_factor));
      return;
    case ScheduleKind::Cosine:
    case ScheduleKind::Linear:
      to.emplace_back("epochs", fmt::format("{}", options.epochs()));
      to.emplace_back("final-lr-factor", fmt::format("{}", schedule.final_factor));
  }
}

std::string text_of(const ParameterGroup& group) {
  return fmt::format("{} lr {} decay {}{}", fmt::join(group.names, " "),
                     group.lr ? fmt::format("{}", *group.lr) : "same",
                     group.weight_decay ? fmt::format("{}", *group.weight_decay) : "same",
                     group.frozen ? " frozen" : "");
}

void add_optimizer(const Optimizer& optimizer, NamedOptions& to) {
  to.emplace_back("optimizer", optimizer.name());
  to.emplace_back("lr", fmt::format("{}", optimizer.lr()));
  to.emplace_back("weight-decay", fmt::format("{}", optimizer.weight_decay()));
  if (optimizer.decay() == DecayOf::Matrices) to.emplace_back("decay-of", "matrices");
  if (optimizer.kind() == OptimizerKind::Sgd) {
    to.emplace_back("momentum", fmt::format("{}", optimizer.sgd().momentum));
    to.emplace_back("nesterov", optimizer.sgd().nesterov ? "yes" : "no");
  } else if (optimizer.kind() != OptimizerKind::Custom) {
    const auto& adam = optimizer.adam();
    to.emplace_back("betas", fmt::format("{} {}", adam.beta1, adam.beta2));
    to.emplace_back("epsilon", fmt::format("{}", adam.epsilon));
  }
  const auto or_none = [](const std::optional<double>& number) {
    return number ? fmt::format("{}", *number) : "none";
  };
  to.emplace_back("clip-norm", or_none(optimizer.clip_norm()));
  to.emplace_back("ema-decay", or_none(optimizer.average_decay()));
  for (std::size_t i = 0; i < optimizer.groups().size(); ++i) {
    to.emplace_back(fmt::format("group-{}", i + 1), text_of(optimizer.groups()[i]));
  }
}

}  // namespace

NamedOptions matching_options(const Options& options, const JobLayout& layout,
                              const Optimizer& optimizer) {
  NamedOptions all = options.to_match();
  all.emplace_back("replicas", fmt::format("{}", layout.replicas));
  all.emplace_back("threads-per-device", fmt::format("{}", layout.threads_per_device));
  all.emplace_back("gradient-accumulation", fmt::format("{}", options.gradient_accumulation()));
  all.emplace_back("device-iterations", fmt::format("{}", options.device_iterations()));
  all.emplace_back("seed", fmt::format("{}", options.seed()));
  all.emplace_back("reduction", name_of(options.reduction()));
  all.emplace_back("reduction-order", name_of(options.reduction_order()));
  all.emplace_back("precision", name_of(options.precision()));
  if (options.precision() != Precision::P32_32) all.emplace_back("half", name_of(options.half()));
  add_optimizer(optimizer, all);
  add_schedule(options, all);
  return all;
}

NamedOptions matching_options(const DataLoader& loader) {
  return {{"batch-size", fmt::format("{}", loader.shape().batch_size)},
          {"iterations-per-epoch", fmt::format("{}", loader.size())}};
}

void check_matches(const checkpoint::Manifest& manifest, const std::string& path,
                   const NamedOptions& now) {
  // Some are known later than others: only those that are known are compared.
  auto known = manifest;
  std::erase_if(known.options, [&](const auto& option) {
    return std::ranges::none_of(now,
                                [&](const auto& other) { return other.first == option.first; });
  });
  std::vector<std::string> texts;
  for (const auto& [option, was, is] : checkpoint::contradictions(known, now)) {
    texts.push_back(fmt::format("{} was {}, is {}", option, was, is));
  }
  if (texts.empty()) return;
  throw Error(
      ErrorKind::Options,
      fmt::format("resume: {} was taken with other options: {}", path, fmt::join(texts, "; ")),
      "give the old values, or begin anew in another --checkpoint-dir");
}

}  // namespace lockstep::train

#include "lockstep/train/recovery/resume_compatibility.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "lockstep/base/error.h"
#include "lockstep/base/fnv.h"

namespace lockstep::train {
namespace {

constexpr std::array<const char*, 3> kLoaderOptions{"batch-size", "samples", "shuffle"};

bool is_loaders(const std::pair<std::string, std::string>& option) {
  return std::ranges::find(kLoaderOptions, option.first) != kLoaderOptions.end();
}

void add_schedule(const Options& options, NamedOptions& to) {
  const auto& schedule = options.schedule();
  to.emplace_back("schedule", name_of(schedule.kind));
  to.emplace_back("warmup-epochs", fmt::format("{}", schedule.warmup_epochs));
  switch (schedule.kind) {
    case ScheduleKind::Constant:
      return;  // more epochs than planned are allowed
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
  to.emplace_back("decay-of", optimizer.decay() == DecayOf::Matrices ? "matrices" : "all");
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
  std::vector<std::string> groups;
  for (const auto& group : optimizer.groups()) groups.push_back(text_of(group));
  to.emplace_back("groups", groups.empty() ? "none" : fmt::format("{}", fmt::join(groups, "; ")));
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
  return {{kLoaderOptions[0], fmt::format("{}", loader.shape().batch_size)},
          {kLoaderOptions[1], fmt::format("{}", loader.samples())},
          {kLoaderOptions[2], loader.is_shuffled() ? "yes" : "no"}};
}

void check_matches(const checkpoint::Manifest& manifest, const std::string& path,
                   const NamedOptions& now, Compared compared) {
  auto known = manifest;
  std::erase_if(known.options, [&](const auto& option) {
    return (compared == Compared::AllButLoader && is_loaders(option)) ||
           (compared == Compared::LoaderAlone && !is_loaders(option));
  });
  std::vector<std::string> texts;
  for (const auto& [option, was, is] : checkpoint::contradictions(known, now)) {
    texts.push_back(fmt::format("{} was {}, is {}", option, was, is));
  }
  if (texts.empty()) return;
  throw Error(
      ErrorKind::Options,
      fmt::format("resume: {} was written with other options: {}", path, fmt::join(texts, "; ")),
      "give the old values, or start a new run in another --checkpoint-dir");
}

std::uint64_t loader_print(const NamedOptions& options) {
  Fnv print;
  bool is_there = false;
  for (const auto& option : options) {
    if (!is_loaders(option)) continue;
    print.add(option.first).add(0).add(option.second).add(0);
    is_there = true;
  }
  return is_there ? print.value() : 0;
}

}  // namespace lockstep::train

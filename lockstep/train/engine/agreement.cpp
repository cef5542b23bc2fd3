#include "lockstep/train/engine/agreement.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/base/fnv.h"

namespace lockstep::train {
namespace {

/// Hashes of what must be the same on every instance.
struct Agreement {
  std::int64_t model;
  std::int64_t options;
  std::int64_t optimizer;
};

std::int64_t hash_of(const std::vector<nn::Slot>& slots) {
  Fnv hash;
  for (const auto& slot : slots) {
    for (const auto& name : slot.names) hash.add(name).add(0);
    hash.add(static_cast<std::uint64_t>(slot.tensor().scalar_type()));
    hash.add(slot.tensor().requires_grad() ? 1 : 0);
    for (const auto extent : slot.tensor().sizes()) hash.add(static_cast<std::uint64_t>(extent));
  }
  return static_cast<std::int64_t>(hash.value());
}

std::int64_t hash_of(const Options& options) {
  const auto& schedule = options.schedule();
  Fnv hash;
  hash.add(fmt::format("{} {} {} {} {} {}", options.gradient_accumulation(),
                       options.device_iterations(), options.seed(), options.loss_scale(),
                       name_of(options.reduction()), name_of(options.precision())));
  hash.add(fmt::format("{} {} {} {} {} {} {}", name_of(options.half()), options.epochs(),
                       name_of(schedule.kind), schedule.warmup_epochs, schedule.step_epochs,
                       schedule.step_factor, schedule.final_factor));
  return static_cast<std::int64_t>(hash.value());
}

std::int64_t hash_of(const Optimizer& optimizer, const WeightLayout& weights) {
  Fnv hash;
  const auto& adam = optimizer.adam();
  hash.add(fmt::format("{} {} {} {} {} {}", optimizer.name(), optimizer.sgd().momentum,
                       optimizer.sgd().nesterov, adam.beta1, adam.beta2, adam.epsilon));
  hash.add(fmt::format("{} {}", optimizer.clip_norm().value_or(0),
                       optimizer.average_decay().value_or(0)));
  for (const auto& parameter : weights.parameters) {
    hash.add(fmt::format("{} {}", parameter.settings.lr, parameter.settings.weight_decay));
  }
  return static_cast<std::int64_t>(hash.value());
}

}  // namespace

std::uint64_t agree_on_training(comm::Communicator& communicator,
                                const std::vector<nn::Slot>& slots, const Options& options,
                                const Optimizer& optimizer, const WeightLayout& weights,
                                int replicas) {
  constexpr std::int64_t kWidth = sizeof(Agreement) / sizeof(std::int64_t);
  const Agreement mine{hash_of(slots), hash_of(options), hash_of(optimizer, weights)};
  std::vector<Agreement> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(
      {&mine, kWidth, DataType::I64, "agreement"},
      {all.data(), kWidth * communicator.size(), DataType::I64, "agreement"});
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const auto check = [&](std::int64_t Agreement::*part, const char* what) {
      if (all[rank].*part == all.front().*part) return;
      throw Error(ErrorKind::Options,
                  fmt::format("TrainingModel: expected the same {} on every instance, found "
                              "another on instance {} than on instance 0",
                              what, communicator.instances()[rank]),
                  "do not derive it from the instance number, the time or the machine");
    };
    check(&Agreement::model, "model");
    check(&Agreement::options, "options");
    check(&Agreement::optimizer, "optimizer");
  }
  Fnv fingerprint;
  for (const auto hash : {mine.model, mine.options, mine.optimizer, std::int64_t{replicas}}) {
    fingerprint.add(static_cast<std::uint64_t>(hash));
  }
  return fingerprint.value();
}

}  // namespace lockstep::train

#include "lockstep/plan/plan.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace lockstep::plan {
namespace {

/// Plans are read from files too, with whatever numbers: the largest there is, where a sum is
/// larger.
std::int64_t sum(std::int64_t a, std::int64_t b) noexcept {
  std::int64_t result = 0;
  return __builtin_add_overflow(a, b, &result) ? std::numeric_limits<std::int64_t>::max() : result;
}

using Round = double (*)(double);

std::string size_text(std::int64_t bytes, Round round) {
  constexpr auto kMiB = static_cast<double>(1 << 20);
  constexpr auto kGiB = static_cast<double>(1 << 30);
  const auto count = static_cast<double>(bytes);
  if (count < kGiB) return fmt::format("{:.0f} MiB", round(count / kMiB));
  return fmt::format("{:.1f} GiB", round(10 * count / kGiB) / 10);
}

/// Replicas that every device has stages of.
int replicas_in_turn(const Plan& plan) {
  int fewest = std::numeric_limits<int>::max();
  for (const auto& instance : plan.instances) {
    for (const auto& device : instance.devices) {
      std::set<int> replicas;
      for (const auto& placed : device.stages) replicas.insert(placed.replica);
      if (!replicas.empty()) fewest = std::min(fewest, static_cast<int>(replicas.size()));
    }
  }
  return fewest == std::numeric_limits<int>::max() ? 1 : fewest;
}

std::vector<std::string> ways_to_need_less(const Plan& plan) {
  std::vector<std::string> ways;
  if (plan.batch_size > 1) ways.emplace_back("a lower --batch-size");
  if (plan.recompute != Recompute::Blocks) ways.emplace_back("--recompute=blocks");
  // Each instance needs a replica.
  if (plan.shape.replicas > plan.shape.instances) ways.emplace_back("fewer --replicas");
  if (plan.shape.instances > 1) ways.emplace_back("fewer --num-instances");
  if (ways.empty()) ways.emplace_back("a smaller model");
  return ways;
}

/// Rounded so that what is needed never reads like what there is.
std::string too_little_memory(const Plan& plan) {
  const auto needed = plan.total_bytes();
  if (plan.available_bytes <= 0 || needed <= plan.available_bytes) return {};
  return fmt::format("the plan needs {} of memory and {} are available: it needs less with {}",
                     size_text(needed, std::ceil), size_text(plan.available_bytes, std::floor),
                     fmt::join(ways_to_need_less(plan), ", or "));
}

std::string idle_stages(const Plan& plan) {
  return too_few_micro_batches({.schedule = plan.schedule,
                                .stages = static_cast<int>(plan.stages.size()),
                                .micro_batches = plan.micro_batches,
                                .replicas = replicas_in_turn(plan)},
                               plan.idle_share);
}

/// Its backward pass follows at once, so there is nothing that would have to wait.
std::string nothing_to_recompute(const Plan& plan) {
  if (plan.recompute != Recompute::Stage || plan.stages.size() > 1) return {};
  return "--recompute saves nothing where a replica is one stage: --recompute=blocks does";
}

}  // namespace

std::int64_t DeviceMemory::total() const noexcept {
  return sum(sum(activations, gradients), buffers);
}

std::int64_t InstancePlan::private_bytes() const noexcept {
  auto bytes = loader_bytes;
  for (const auto& device : devices) bytes = sum(bytes, device.memory.total());
  return bytes;
}

std::int64_t Plan::total_bytes() const noexcept {
  auto bytes = shared.total;
  for (const auto& instance : instances) bytes = sum(bytes, instance.private_bytes());
  return bytes;
}

std::vector<int> split_of(const Plan& plan) {
  std::vector<int> split;
  for (const auto& stage : plan.stages) split.push_back(stage.first_block);
  return split;
}

std::vector<std::string> warnings_of(const Plan& plan) {
  std::vector<std::string> warnings;
  for (auto& warning : {too_little_memory(plan), idle_stages(plan), nothing_to_recompute(plan)}) {
    if (!warning.empty()) warnings.push_back(warning);
  }
  return warnings;
}

}  // namespace lockstep::plan

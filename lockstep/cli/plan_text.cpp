#include "lockstep/cli/plan_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <vector>

#include "lockstep/base/strings.h"
#include "lockstep/ui/table.h"

namespace lockstep::cli {
namespace {

using plan::Plan;

std::string memory_text(std::int64_t bytes) {
  const auto mib = static_cast<double>(bytes) / 0x1p20;
  // 1023.96 MiB would be written as 1024.0.
  return mib < 1023.95 ? fmt::format("{:.1f} MiB", mib) : fmt::format("{:.1f} GiB", mib / 0x1p10);
}

std::string count(std::int64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

/// Numbers in any order, each once.
std::string ranges(const std::set<int>& numbers, const char* none) {
  return numbers.empty() ? none : to_ranges(std::vector<int>(numbers.begin(), numbers.end()));
}

std::string replicas_text(const topology::ReplicaRange& range) {
  std::vector<int> numbers(static_cast<std::size_t>(range.count));
  std::iota(numbers.begin(), numbers.end(), range.first);
  return to_ranges(numbers);
}

/// "1024-2047".
std::string elements_text(const plan::ElementRange& range) {
  return range.count == 0 ? "-" : fmt::format("{}-{}", range.first, range.first + range.count - 1);
}

bool has_stages(const Plan& plan) {
  return plan.stages.size() > 1;
}

std::string head(const Plan& plan) {
  const auto& shape = plan.shape;
  auto text = fmt::format("{}  R={} I={} S={} T={} B={} G={}", plan.model, shape.replicas,
                          shape.instances, shape.devices_per_replica, plan.threads_per_device,
                          plan.batch_size, plan.micro_batches);
  if (has_stages(plan)) text += fmt::format("  pipeline {}", name_of(plan.schedule));
  if (plan.recompute != Recompute::None) {
    text += fmt::format("  recompute {}", name_of(plan.recompute));
  }
  return text + "\n";
}

/// "layer3.8..fc (12)".
std::string blocks_text(const plan::StagePlan& stage) {
  return stage.num_blocks == 1
             ? fmt::format("{} (1)", stage.begins_with)
             : fmt::format("{}..{} ({})", stage.begins_with, stage.ends_with, stage.num_blocks);
}

std::string stages_table(const Plan& plan) {
  const auto milliseconds = [&](double seconds) {
    return plan.profile.is_timed ? fmt::format("{:.1f}", 1e3 * seconds) : "-";
  };
  ui::Table table({"stage", "blocks", "parameters", "forward ms", "backward ms", "sent", "stored",
                   "in flight"});
  for (std::size_t i = 0; i < plan.stages.size(); ++i) {
    const auto& stage = plan.stages[i];
    const bool is_last = i + 1 == plan.stages.size();
    table.add({std::to_string(i), blocks_text(stage), memory_text(stage.parameter_bytes),
               milliseconds(stage.forward_s), milliseconds(stage.backward_s),
               is_last ? "-" : memory_text(stage.output_bytes), memory_text(stage.kept_bytes),
               std::to_string(stage.most_in_flight)});
  }
  return table.to_string();
}

std::string idle_text(const Plan& plan) {
  if (!has_stages(plan)) return "";
  auto text =
      fmt::format("devices wait for each other {:.1f} % of the time", 100 * plan.idle_share);
  if (plan.step_s > 0) {
    text += fmt::format("\na step takes {:.1f} ms, {:.2f} times as fast as one stage at a time",
                        1e3 * plan.step_s, plan.sequential_s / plan.step_s);
  }
  return text + "\n";
}

std::string instances_table(const Plan& plan) {
  ui::Table table(
      {"instance", "replicas", "devices", "cores", "updates", "workers", "batches", "own memory"});
  for (const auto& instance : plan.instances) {
    std::set<int> devices;
    std::set<int> cores;
    for (const auto& device : instance.devices) {
      devices.insert(device.device);
      cores.insert(device.cores.begin(), device.cores.end());
    }
    table.add({std::to_string(instance.instance), replicas_text(instance.replicas),
               ranges(devices, "-"), ranges(cores, "any"), elements_text(instance.slice),
               std::to_string(instance.loader_workers), memory_text(instance.loader_bytes),
               memory_text(instance.private_bytes())});
  }
  return table.to_string();
}

/// "0 of 0-2, 1 of 0-2".
std::string stages_text(const std::vector<plan::PlacedStage>& stages) {
  std::map<int, std::set<int>> replicas;
  for (const auto& placed : stages) replicas[placed.stage].insert(placed.replica);
  std::vector<std::string> parts;
  for (const auto& [stage, of] : replicas) {
    parts.push_back(fmt::format("{} of {}", stage, ranges(of, "-")));
  }
  return parts.empty() ? "-" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string devices_table(const Plan& plan) {
  ui::Table table(
      {"instance", "device", "cores", "stages of replicas", "activations", "gradients", "buffers"});
  for (const auto& instance : plan.instances) {
    for (const auto& device : instance.devices) {
      table.add({std::to_string(instance.instance), std::to_string(device.device),
                 ranges({device.cores.begin(), device.cores.end()}, "any"),
                 stages_text(device.stages), memory_text(device.memory.activations),
                 memory_text(device.memory.gradients), memory_text(device.memory.buffers)});
    }
  }
  return table.to_string();
}

std::string line(std::string_view what, const std::string& value) {
  return fmt::format("{:<10}{}\n", what, value);
}

/// The memory that the host needs, and the memory that is available. The total includes weights and
/// optimizer twice.
std::string host_text(const Plan& plan) {
  const auto& shared = plan.shared;
  auto total = memory_text(plan.total_bytes());
  if (plan.available_bytes > 0) {
    total += fmt::format(" of {} available", memory_text(plan.available_bytes));
  }
  return line("shared", fmt::format("weights {}, optimizer {}, gradients {}; {} with all versions",
                                    memory_text(shared.weights), memory_text(shared.optimizer),
                                    memory_text(shared.gradients), memory_text(shared.total))) +
         line("total", total);
}

std::string buckets_text(const Plan& plan) {
  std::int64_t largest = 0;
  for (const auto& bucket : plan.buckets) largest = std::max(largest, bucket.count);
  const auto number = static_cast<std::int64_t>(plan.buckets.size());
  return line("buckets",
              number < 2 ? fmt::format("{} of {}", number, count(largest, "number"))
                         : fmt::format("{}, the largest of {}", number, count(largest, "number")));
}

std::string gpu_text(const train::PlannedTraining& planned) {
  if (!planned.gpu) return "";
  const auto& gpu = *planned.gpu;
  return line("on a GPU",
              fmt::format("state {}, gradients {}, samples {}, activations {}; total {}",
                          memory_text(gpu.state), memory_text(gpu.sums), memory_text(gpu.samples),
                          memory_text(gpu.activations), memory_text(gpu.total())));
}

}  // namespace

std::string to_text(const Plan& plan) {
  return fmt::format("{}\n{}{}\n{}\n{}\n{}{}", head(plan), stages_table(plan), idle_text(plan),
                     instances_table(plan), devices_table(plan), host_text(plan),
                     buckets_text(plan));
}

std::string to_text(const train::PlannedTraining& planned) {
  const bool is_kept = !planned.kept_in.empty();
  return to_text(planned.plan) + gpu_text(planned) +
         fmt::format("cache key {}  ({}{})\n", planned.key, planned.is_cached ? "cached" : "new",
                     is_kept ? "" : ", not stored") +
         (is_kept ? line("stored in", planned.kept_in) : "");
}

}  // namespace lockstep::cli

#include "lockstep/launch/place/shrink.h"

#include <algorithm>
#include <numeric>
#include <set>

namespace lockstep::launch {
namespace {

/// Ascending, by the numbers that they had at first.
std::vector<int> own_cores(const JobPlan& plan, int instance) {
  std::set<int> cores;
  for (const auto& planned : plan.instances) {
    if (planned.identity.instance == instance) {
      cores.insert(planned.cores.begin(), planned.cores.end());
    }
  }
  for (const auto& planned : plan.instances) {
    if (planned.identity.instance == instance) continue;
    for (const int core : planned.cores) cores.erase(core);
  }
  return {cores.begin(), cores.end()};
}

}  // namespace

Shrinker::Shrinker(RunOptions options, std::vector<topology::Host> hosts, topology::Machine machine)
    : options_(std::move(options)),
      hosts_(std::move(hosts)),
      machine_(std::move(machine)),
      core_numbers_(machine_.cores.size()) {
  std::iota(core_numbers_.begin(), core_numbers_.end(), 0);
}

Shrinker::Shrunk Shrinker::without(const JobPlan& plan, int instance) {
  const bool is_bound = !plan.instances[static_cast<std::size_t>(instance)].cores.empty();
  const auto left_out = own_cores(plan, instance);
  std::vector<int> indices;
  for (const int core : left_out) {
    const auto found = std::ranges::find(core_numbers_, core);
    indices.push_back(static_cast<int>(found - core_numbers_.begin()));
  }
  machine_ = topology::without_cores(std::move(machine_), indices);
  std::erase_if(core_numbers_,
                [&](int core) { return std::ranges::find(left_out, core) != left_out.end(); });

  // What results depend on stays as it was, though there are fewer cores.
  options_.num_replicas = plan.placement.shape.replicas;
  options_.threads_per_device = plan.threads_per_device;
  options_.num_instances = plan.placement.shape.instances - 1;
  Shrunk shrunk{plan_job(options_, hosts_, machine_), left_out};
  name_cores(shrunk.plan);
  if (!is_bound) return shrunk;
  // Who shares devices now would be free, and so use the cores that are left out.
  std::vector<int> cpus;
  for (const auto& core : machine_.cores) {
    cpus.insert(cpus.end(), core.cpus.begin(), core.cpus.end());
  }
  std::sort(cpus.begin(), cpus.end());
  for (auto& planned : shrunk.plan.instances) {
    if (!planned.cores.empty()) continue;
    planned.cores = core_numbers_;
    planned.cpus = cpus;
  }
  return shrunk;
}

void Shrinker::name_cores(JobPlan& plan) const {
  for (auto& planned : plan.instances) {
    for (auto& core : planned.cores) core = core_numbers_[static_cast<std::size_t>(core)];
  }
}

}  // namespace lockstep::launch

#include "lockstep/topology/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "lockstep/base/error.h"

namespace lockstep::topology {

int Machine::usable_cores() const {
  int count = static_cast<int>(cores.size());
  if (cpu_quota) count = std::min(count, static_cast<int>(std::floor(*cpu_quota)));
  return std::max(1, count);
}

int Machine::numa_nodes() const {
  int nodes = 1;
  for (const auto& core : cores) nodes = std::max(nodes, core.numa_node + 1);
  return nodes;
}

Machine without_cores(Machine machine, const std::vector<int>& cores) {
  for (auto core = cores.rbegin(); core != cores.rend(); ++core) {
    machine.cores.erase(machine.cores.begin() + *core);
  }
  // NUMA nodes are numbered without gaps.
  std::map<int, int> numbers;
  for (const auto& core : machine.cores) numbers[core.numa_node] = 0;
  int next = 0;
  for (auto& [node, number] : numbers) number = next++;
  for (auto& core : machine.cores) core.numa_node = numbers[core.numa_node];
  return machine;
}

int threads_per_device(int usable_cores, const Placement& placement) {
  int most_stages = 1;
  for (std::size_t host = 0; host < placement.hosts.size(); ++host) {
    most_stages = std::max(most_stages, placement.stages_on_host(static_cast<int>(host)));
  }
  return std::max(1, usable_cores / most_stages);
}

int devices_on_host(int usable_cores, int threads, int stages) {
  return std::clamp(usable_cores / threads, 1, std::max(1, stages));
}

std::vector<int> device_ids(const Placement& placement, int instance, int devices) {
  const auto& own = placement.instances.at(static_cast<std::size_t>(instance));
  const auto& first_on_host =
      placement.instances.at(static_cast<std::size_t>(instance - own.local_instance));
  const int stages = placement.shape.devices_per_replica;
  const int first_stage = (own.replicas.first - first_on_host.replicas.first) * stages;
  std::vector<int> ids(static_cast<std::size_t>(own.replicas.count * stages));
  for (std::size_t i = 0; i < ids.size(); ++i) {
    ids[i] = (first_stage + static_cast<int>(i)) % devices;
  }
  return ids;
}

std::vector<int> cores_of_device(int device, int devices, int cores) {
  const int begin = device * cores / devices;
  const int end = std::max(begin + 1, (device + 1) * cores / devices);
  std::vector<int> own(static_cast<std::size_t>(end - begin));
  std::iota(own.begin(), own.end(), begin);
  return own;
}

namespace {

std::vector<int> cores_of_devices(const std::vector<int>& device_ids, int devices, int cores) {
  std::set<int> all;
  for (const int device : device_ids) {
    const auto own = cores_of_device(device, devices, cores);
    all.insert(own.begin(), own.end());
  }
  return {all.begin(), all.end()};
}

std::vector<std::vector<int>> divide_numa_nodes(const Machine& machine, int instances) {
  const int nodes = machine.numa_nodes();
  std::vector<std::vector<int>> parts(static_cast<std::size_t>(instances));
  for (int i = 0; i < instances; ++i) {
    const int first_node = i * nodes / instances;
    const int end_node = std::max(first_node + 1, (i + 1) * nodes / instances);
    for (std::size_t core = 0; core < machine.cores.size(); ++core) {
      const int node = machine.cores[core].numa_node;
      if (node >= first_node && node < end_node) {
        parts[static_cast<std::size_t>(i)].push_back(static_cast<int>(core));
      }
    }
  }
  return parts;
}

}  // namespace

std::vector<std::vector<int>> bind(const Machine& machine,
                                   const std::vector<std::vector<int>>& device_ids, int devices,
                                   BindPolicy policy) {
  const int instances = static_cast<int>(device_ids.size());
  const int cores = static_cast<int>(machine.cores.size());
  std::size_t stages = 0;
  for (const auto& ids : device_ids) stages += ids.size();
  const bool devices_are_shared = stages > static_cast<std::size_t>(devices);

  if (policy == BindPolicy::Numa) return divide_numa_nodes(machine, instances);
  std::vector<std::vector<int>> bound(device_ids.size());
  if (policy == BindPolicy::None || (policy == BindPolicy::Auto && devices_are_shared))
    return bound;
  if (instances > cores) {
    throw Error(
        ErrorKind::Options,
        fmt::format("bind: {} instances need a core each, but this host has {}", instances, cores),
        "pass --bind auto, which leaves instances free where they share cores");
  }
  std::transform(device_ids.begin(), device_ids.end(), bound.begin(),
                 [&](const auto& ids) { return cores_of_devices(ids, devices, cores); });
  return bound;
}

}  // namespace lockstep::topology

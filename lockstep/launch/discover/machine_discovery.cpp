#include "lockstep/launch/discover/machine_discovery.h"

#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/strings.h"

namespace lockstep::launch {
namespace {

using BitmapPtr = std::unique_ptr<hwloc_bitmap_s, decltype(&hwloc_bitmap_free)>;
using TopologyPtr = std::unique_ptr<hwloc_topology, decltype(&hwloc_topology_destroy)>;

BitmapPtr make_bitmap() {
  return {hwloc_bitmap_alloc(), hwloc_bitmap_free};
}

TopologyPtr load_topology() {
  hwloc_topology_t raw = nullptr;
  if (hwloc_topology_init(&raw) != 0) throw io_error("discover: hwloc_topology_init");
  TopologyPtr topology(raw, hwloc_topology_destroy);
  // Nothing but packages and cores is asked for: caches and devices cost time to find.
  hwloc_topology_set_all_types_filter(raw, HWLOC_TYPE_FILTER_KEEP_NONE);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_PACKAGE, HWLOC_TYPE_FILTER_KEEP_ALL);
  hwloc_topology_set_type_filter(raw, HWLOC_OBJ_CORE, HWLOC_TYPE_FILTER_KEEP_ALL);
  if (hwloc_topology_load(raw) != 0) throw io_error("discover: hwloc_topology_load");
  return topology;
}

/// hwloc knows what the container allows; `taskset` and Slurm narrow the process's own mask.
BitmapPtr allowed_cpus(hwloc_topology_t topology) {
  auto allowed = make_bitmap();
  hwloc_bitmap_copy(allowed.get(), hwloc_topology_get_allowed_cpuset(topology));
  auto own = make_bitmap();
  if (hwloc_get_cpubind(topology, own.get(), HWLOC_CPUBIND_PROCESS) == 0 &&
      hwloc_bitmap_intersects(own.get(), allowed.get()) != 0) {
    hwloc_bitmap_and(allowed.get(), allowed.get(), own.get());
  }
  return allowed;
}

std::vector<int> to_numbers(hwloc_const_bitmap_t bitmap) {
  std::vector<int> numbers;
  for (int i = hwloc_bitmap_first(bitmap); i >= 0; i = hwloc_bitmap_next(bitmap, i)) {
    numbers.push_back(i);
  }
  return numbers;
}

int numa_node_of(hwloc_topology_t topology, hwloc_const_cpuset_t cpus) {
  const int nodes = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
  for (int node = 0; node < nodes; ++node) {
    const auto* object =
        hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, static_cast<unsigned>(node));
    if (hwloc_bitmap_intersects(object->cpuset, cpus) != 0) return node;
  }
  return 0;
}

/// A process that may use node 1 alone sees one node.
void number_nodes_densely(std::vector<topology::Core>& cores) {
  std::map<int, int> numbers;
  for (const auto& core : cores) numbers[core.numa_node] = 0;
  int next = 0;
  for (auto& [node, number] : numbers) number = next++;
  for (auto& core : cores) core.numa_node = numbers[core.numa_node];
}

std::vector<topology::Core> cores_of(hwloc_topology_t topology) {
  const auto allowed = allowed_cpus(topology);
  // Some virtual machines tell of no cores, only of processing units.
  const auto type =
      hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0 ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
  std::vector<topology::Core> cores;
  auto usable = make_bitmap();
  for (hwloc_obj_t core = nullptr;
       (core = hwloc_get_next_obj_by_type(topology, type, core)) != nullptr;) {
    hwloc_bitmap_and(usable.get(), core->cpuset, allowed.get());
    if (hwloc_bitmap_iszero(usable.get()) != 0) continue;
    cores.push_back({numa_node_of(topology, core->cpuset), to_numbers(usable.get())});
  }
  number_nodes_densely(cores);
  std::stable_sort(cores.begin(), cores.end(),
                   [](const auto& a, const auto& b) { return a.numa_node < b.numa_node; });
  return cores;
}

/// This process's group in the version 2 hierarchy: the line "0::/path".
std::string own_cgroup() {
  std::string text;
  try {
    text = read_file("/proc/self/cgroup");
  } catch (const Error&) {
    return "/";  // a kernel without control groups
  }
  for (const auto line : split(text, '\n')) {
    if (line.substr(0, 3) == "0::") return std::string(line.substr(3));
  }
  return "/";
}

}  // namespace

std::optional<double> read_cpu_quota(const std::string& mount, const std::string& group) {
  std::optional<double> least;
  for (auto path = group;; path.resize(path.rfind('/'))) {
    try {
      const auto text = read_file(mount + path + "/cpu.max");
      const auto parts = split(trim(text), ' ');
      const auto quota = parse_integer(parts.front());
      const auto period = parse_integer(parts.back());
      if (quota && period && *period > 0) {
        const double cores = static_cast<double>(*quota) / static_cast<double>(*period);
        least = std::min(least.value_or(cores), cores);
      }
    } catch (const Error&) {
      // No such group, or no limits in it: the groups above may have some.
    }
    if (path.find('/') == std::string::npos) return least;
  }
}

topology::Machine discover_machine() {
  const auto topology = load_topology();
  topology::Machine machine;
  machine.cores = cores_of(topology.get());
  // hwloc counts what NUMA nodes report, which some virtual machines get wrong.
  machine.memory_bytes = std::int64_t{::sysconf(_SC_PHYS_PAGES)} * ::sysconf(_SC_PAGESIZE);
  if (auto* package = hwloc_get_obj_by_type(topology.get(), HWLOC_OBJ_PACKAGE, 0)) {
    if (const char* model = hwloc_obj_get_info_by_name(package, "CPUModel")) {
      machine.cpu_model = trim(model);
    }
  }
  machine.cpu_quota = read_cpu_quota("/sys/fs/cgroup", own_cgroup());
  return machine;
}

}  // namespace lockstep::launch

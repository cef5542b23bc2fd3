#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/topology/placement.h"

namespace lockstep::topology {

/// A physical core that this process may use, with its hardware threads.
struct Core {
  int numa_node = 0;
  std::vector<int> cpus;  ///< as the operating system numbers them
};

/// The part of a host that a job may use.
struct LOCKSTEP_PRIVATE_API Machine {
  std::string cpu_model;
  std::int64_t memory_bytes = 0;
  std::vector<Core> cores;          ///< by NUMA node, then by number
  std::optional<double> cpu_quota;  ///< a container's limit, in cores

  /// Cores that can compute at once: all, or as many as the quota pays for; at least 1.
  int usable_cores() const;
  int numa_nodes() const;
};

/// The machine without some of its cores (indices into `Machine::cores`, ascending).
Machine without_cores(Machine machine, const std::vector<int>& cores);

/// T of `docs/internals/architecture.md`: the cores of a host divided by the most stages placed on
/// any host, at least 1. It does not depend on the number of instances on a host, because the bits
/// depend on it.
int threads_per_device(int usable_cores, const Placement& placement);

/// How many devices of `threads` cores a host has for its stages; stages beyond that share them.
LOCKSTEP_PRIVATE_API int devices_on_host(int usable_cores, int threads, int stages);

/// The device of each stage of an instance, replica by replica, round robin over the host's
/// devices.
std::vector<int> device_ids(const Placement& placement, int instance, int devices);

/// How instances are bound to cores.
enum class BindPolicy {
  Auto,  ///< to the cores of their devices; free where stages share devices
  None,  ///< every instance is free
  Core,  ///< to the cores of their devices; fewer cores than instances is an error
  Numa,  ///< whole NUMA nodes; instances share a node where there are too few
};

/// The cores (indices into `Machine::cores`) of one of a host's devices: neighbours, in equal
/// parts.
std::vector<int> cores_of_device(int device, int devices, int cores);

/// Which cores each instance of a host is bound to; none: it is free.
///
/// An instance is bound to the cores of its devices. `device_ids` holds those of each local
/// instance, out of `devices` in all. Throws `Options`.
std::vector<std::vector<int>> bind(const Machine& machine,
                                   const std::vector<std::vector<int>>& device_ids, int devices,
                                   BindPolicy policy);

}  // namespace lockstep::topology

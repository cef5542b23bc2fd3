#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/topology/placement.h"

namespace lockstep::topology {

/// A physical core that this process may use, with its hardware threads.
struct Core {
  int numa_node = 0;
  std::vector<int> cpus;  ///< as the operating system numbers them
};

/// The part of a host that a job may use.
struct Machine {
  std::string cpu_model;
  std::int64_t memory_bytes = 0;
  std::vector<Core> cores;          ///< by NUMA node, then by number
  std::optional<double> cpu_quota;  ///< a container's limit, in cores

  /// Cores that can compute at once: all, or as many as the quota pays for; at least 1.
  int usable_cores() const;
  int numa_nodes() const;
};

/// T of `docs/architecture.md`: the cores of a host divided by the most stages placed on any host,
/// at least 1. It does not depend on the number of instances on a host, because the bits depend on
/// it.
int threads_per_device(int usable_cores, const Placement& placement);

/// How many devices of `threads` cores a host has for its stages; stages beyond that share them.
int devices_on_host(int usable_cores, int threads, int stages);

/// The device of each stage of an instance, replica by replica, round robin over the host's
/// devices.
std::vector<int> device_ids(const Placement& placement, int instance, int devices);

/// How instances are bound to cores.
enum class BindPolicy {
  Auto,  ///< divide the cores among the instances; leave them free where there are too few cores
  None,  ///< leave every instance free
  Core,  ///< divide the cores; too few is an error
  Numa,  ///< whole NUMA nodes; instances share a node where there are too few
};

/// Which cores (indices into `machine.cores`) each instance of a host is bound to; none: it is
/// free.
///
/// `stages` holds the number of stages of each local instance: cores are divided in that ratio.
/// Throws `Options`.
std::vector<std::vector<int>> bind(const Machine& machine, const std::vector<int>& stages,
                                   BindPolicy policy);

}  // namespace lockstep::topology

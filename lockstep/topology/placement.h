#pragma once

#include <span>
#include <vector>

#include "lockstep/topology/host_list.h"
#include "lockstep/topology/job_shape.h"

namespace lockstep::topology {

/// Where one instance is, and what it carries.
struct InstancePlace {
  int instance = 0;
  int host = 0;  ///< index into `Placement::hosts`
  int local_instance = 0;
  ReplicaRange replicas;
};

/// The whole job, placed. Instances are in order, and those of one host are neighbours.
struct Placement {
  JobShape shape;
  std::vector<Host> hosts;
  std::vector<InstancePlace> instances;

  /// The instances that one host carries.
  std::span<const InstancePlace> on_host(int host) const;

  /// The stages that one host computes: its replicas times the devices of each.
  int stages_on_host(int host) const;
};

/// Divides the instances evenly among the hosts, within their slots; earlier hosts take more.
/// Throws `Options` where the shape is impossible or the slots do not suffice.
Placement place(std::vector<Host> hosts, const JobShape& shape);

}  // namespace lockstep::topology

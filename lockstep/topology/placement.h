#pragma once

#include <span>
#include <vector>

#include "lockstep/topology/host_list.h"

namespace lockstep::topology {

/// How large a job is, in the words of `docs/architecture.md`.
struct JobShape {
  int replicas = 1;
  int instances = 1;
  int devices_per_replica = 1;  ///< the stages of one replica

  bool operator==(const JobShape&) const = default;
};

/// A contiguous range of replicas.
struct ReplicaRange {
  int first = 0;
  int count = 0;

  bool operator==(const ReplicaRange&) const = default;
};

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

/// The replicas of one instance: contiguous, balanced within one, earlier instances carry more.
/// A function of the shape alone, so every process of a job can compute it for every other.
ReplicaRange replicas_of(int instance, const JobShape& shape);

/// Divides the instances evenly among the hosts, within their slots; earlier hosts take more.
/// Throws `Options` where the shape is impossible or the slots do not suffice.
Placement place(std::vector<Host> hosts, const JobShape& shape);

}  // namespace lockstep::topology

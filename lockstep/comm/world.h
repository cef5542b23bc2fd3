#pragma once

#include <span>
#include <string>

#include "lockstep/topology/identity.h"

namespace lockstep {

/// What a process knows of the job that it is part of.
///
/// A value: copies answer alike, and every member may be called from any thread. It lives in
/// `comm` because the collectives over the job's instances are offered here as well.
class World {
 public:
  /// Reads who this process is from its environment: lockstep's variables, torchrun's, Open MPI's
  /// or Slurm's; without any it is alone, one instance with one replica.
  ///
  /// Errors: `Options`, naming the variable, where the environment contradicts itself.
  static World init();

  explicit World(topology::Identity identity) : identity_(std::move(identity)) {}

  /// Whether some launcher started this process as one of a job, be it a job of one.
  bool launched() const noexcept { return launched_by() != topology::LaunchedBy::Nobody; }
  topology::LaunchedBy launched_by() const noexcept { return identity_.launched_by; }

  int instance() const noexcept { return identity_.instance; }
  int num_instances() const noexcept { return identity_.num_instances; }
  int local_instance() const noexcept { return identity_.local_instance; }
  int num_local_instances() const noexcept { return identity_.num_local_instances; }

  /// Replicas of the whole job, and of this instance.
  int num_replicas() const noexcept { return identity_.num_replicas; }
  int num_local_replicas() const noexcept { return identity_.local_replicas.count; }
  int first_replica() const noexcept { return identity_.local_replicas.first; }

  int devices_per_replica() const noexcept { return identity_.devices_per_replica; }

  /// The devices of this host that compute this instance's stages, replica by replica.
  std::span<const int> device_ids() const noexcept { return identity_.device_ids; }

  /// The devices of one of this instance's replicas, given by its number in the job.
  /// Errors: `Options` where another instance carries that replica.
  std::span<const int> device_ids(int replica) const;

  /// How often the launcher has started this job again after a failure.
  int restart_count() const noexcept { return identity_.restart_count; }

  /// The launcher's name for the job; empty where lockstep's launcher did not start it.
  const std::string& job_id() const noexcept { return identity_.job_id; }

 private:
  topology::Identity identity_;
};

}  // namespace lockstep

#pragma once

#include "lockstep/base/export.h"

namespace lockstep::topology {

/// How large a job is, in the words of `docs/internals/architecture.md`.
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

/// The replicas of one instance: contiguous, balanced within one, earlier instances carry more.
/// A function of the shape alone, so every process of a job can compute it for every other.
LOCKSTEP_API ReplicaRange replicas_of(int instance, const JobShape& shape);

}  // namespace lockstep::topology

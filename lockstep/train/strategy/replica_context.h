#pragma once

// Apart from ReplicaGroup, which is internal.
namespace lockstep {

/// What a function that runs on a replica knows of it.
struct ReplicaContext {
  int replica = 0;               ///< of the whole job, from 0
  int local = 0;                 ///< among those of this instance, from 0
  int num_replicas_in_sync = 1;  ///< R
};

}  // namespace lockstep

#pragma once

#include <vector>

#include "lockstep/topology/placement.h"
#include "lockstep/train/options.h"

namespace lockstep::train {

/// Which replicas this instance carries, and what computes them. Decided once, the same way by
/// everything that is made from the same options.
struct JobLayout {
  int replicas = 1;  ///< R, of the whole job
  topology::ReplicaRange local{0, 1};
  int threads_per_device = 1;    ///< T
  int num_devices = 1;           ///< of this instance, each with a thread that drives it
  std::vector<int> device_of{};  ///< of each local replica, 0..num_devices-1

  int device_of_replica(std::int64_t replica) const {
    return device_of[static_cast<std::size_t>(replica - local.first)];
  }
};

/// Instances that nobody told how many threads a device has meet here: instance 0 decides.
JobLayout lay_out(const Options& options);

}  // namespace lockstep::train

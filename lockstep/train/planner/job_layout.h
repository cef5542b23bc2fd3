#pragma once

#include <optional>
#include <vector>

#include "lockstep/topology/placement.h"
#include "lockstep/train/api/options.h"

namespace lockstep::train {

/// Which replicas this instance carries, and what computes them. Decided once, the same way by
/// everything that is made from the same options.
struct JobLayout {
  int replicas = 1;  ///< R, of the whole job
  topology::ReplicaRange local{0, 1};
  int stages = 1;              ///< S: devices of a replica
  int threads_per_device = 1;  ///< T
  int num_devices = 1;         ///< of this instance, each with a thread that drives it
  /// By local replica and stage: 0..num_devices-1, in the order in which stages name them.
  std::vector<std::vector<int>> device_of{};
  std::vector<int> device_ids{};  ///< of the host, by those numbers
  std::optional<int> gpu{};       ///< that computes all of it, where one does

  /// Devices that begin replicas, side by side.
  int num_first_devices() const;
};

/// Instances of a host take its GPUs in turn. Errors: `Unavailable` where there is none.
int gpu_of(int local_instance);

/// Micro-batches that an instance of this layout has filled, or in use, at the same time.
int loader_buffers(const Options& options, const JobLayout& layout);
/// The same for replicas on CPUs; `first_devices` of the instance's devices begin replicas.
int batches_at_once(const Options& options, int first_devices);

/// Instances that nobody told how many threads a device has meet here: instance 0 decides.
JobLayout lay_out(const Options& options);

}  // namespace lockstep::train

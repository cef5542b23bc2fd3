#pragma once

#include <optional>
#include <vector>

#include "lockstep/topology/placement.h"
#include "lockstep/train/api/options.h"

namespace lockstep::train {

/// The replicas of this instance, and the devices that compute them. It is a function of the
/// options and the world, so all objects that are made from the same options have the same layout.
struct JobLayout {
  int replicas = 1;  ///< R, of the whole job
  topology::ReplicaRange local{0, 1};
  int stages = 1;              ///< S: devices of a replica
  int threads_per_device = 1;  ///< T
  int num_devices = 1;         ///< of this instance; a thread drives each device
  /// By local replica and stage: 0..num_devices-1, in the order of the first use.
  std::vector<std::vector<int>> device_of{};
  std::vector<int> device_ids{};  ///< ids on the host, by these numbers
  std::optional<int> gpu{};       ///< computes all replicas of the instance

  /// Number of devices that compute a first stage. They run in parallel.
  int num_first_devices() const;
  /// The ids of the devices on the host, by local replica and stage.
  std::vector<int> ids_by_stage() const;
};

/// Instances of a host use its GPUs in turn. Errors: `Unavailable` if there is no GPU.
int gpu_of(int local_instance);

/// On GPUs: the largest number of steps of one launch.
std::int64_t steps_per_launch(const Options& options);

/// Largest number of micro-batches that an instance has filled, or in use, at the same time.
int loader_buffers(const Options& options, const JobLayout& layout);
/// The same for replicas on CPUs, whose first stages are on this number of devices.
int batches_at_once(const Options& options, int first_devices);

/// If no launcher has set the threads per device, instance 0 decides them for all instances.
JobLayout lay_out(const Options& options);

}  // namespace lockstep::train

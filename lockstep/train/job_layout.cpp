#include "lockstep/train/job_layout.h"

#include <algorithm>

#include "lockstep/launch/discover/machine_discovery.h"
#include "lockstep/topology/machine.h"

namespace lockstep::train {
namespace {

/// As the launcher decides it, for a job that it did not start.
int decide_threads(const Options& options, int stages_on_host, int usable_cores) {
  if (options.threads_per_device()) return *options.threads_per_device();
  return std::max(1, usable_cores / stages_on_host);
}

/// Devices by the order in which replicas name them. Until a replica can span several, the first of
/// its devices computes all of it.
void number_devices(const World& world, JobLayout& layout) {
  std::vector<int> seen;
  for (int replica = layout.local.first; replica < layout.local.first + layout.local.count;
       ++replica) {
    const int device = world.device_ids(replica).front();
    auto found = std::find(seen.begin(), seen.end(), device);
    if (found == seen.end()) found = seen.insert(seen.end(), device);
    layout.device_of.push_back(static_cast<int>(found - seen.begin()));
  }
  layout.num_devices = static_cast<int>(seen.size());
}

JobLayout lay_out_alone(const Options& options) {
  const auto cores = launch::discover_machine().usable_cores();
  JobLayout layout{.replicas = options.replicas().value_or(1)};
  layout.local = {0, layout.replicas};
  layout.threads_per_device = decide_threads(options, layout.replicas, cores);
  layout.num_devices = topology::devices_on_host(cores, layout.threads_per_device, layout.replicas);
  for (int replica = 0; replica < layout.replicas; ++replica) {
    layout.device_of.push_back(replica % layout.num_devices);
  }
  return layout;
}

int agree_on_threads(const Options& options) {
  const auto& world = options.world();
  if (world.identity().threads_per_device) return *world.identity().threads_per_device;
  const int stages =
      world.num_local_instances() * world.num_local_replicas() * world.devices_per_replica();
  std::int32_t threads = decide_threads(options, stages, launch::discover_machine().usable_cores());
  world.broadcast({&threads, 1, DataType::I32, "threads per device"}, 0);
  return threads;
}

}  // namespace

JobLayout lay_out(const Options& options) {
  const auto& world = options.world();
  if (!world.launched() && world.num_instances() == 1) return lay_out_alone(options);
  JobLayout layout{.replicas = world.num_replicas(),
                   .local = {world.first_replica(), world.num_local_replicas()},
                   .threads_per_device = agree_on_threads(options)};
  number_devices(world, layout);
  return layout;
}

}  // namespace lockstep::train

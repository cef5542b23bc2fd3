#include "lockstep/train/api/publish_status.h"

namespace lockstep::train {

/// A process that nobody launched knows from its options alone what it carries.
std::unique_ptr<monitor::StatusPublisher> publish_status(const Options& options,
                                                         const JobLayout& layout) {
  auto identity = options.world().identity();
  identity.num_replicas = layout.replicas;
  identity.local_replicas = layout.local;
  identity.devices_per_replica = layout.stages;
  identity.threads_per_device = layout.threads_per_device;
  identity.device_ids.clear();
  for (const auto& of_replica : layout.device_of) {
    for (const int device : of_replica) {
      identity.device_ids.push_back(layout.device_ids[static_cast<std::size_t>(device)]);
    }
  }
  const auto kind =
      options.device() == DeviceKind::Cuda ? monitor::DeviceKind::Cuda : monitor::DeviceKind::Cpu;
  return std::make_unique<monitor::StatusPublisher>(identity,
                                                    topology::Environment::of_this_process(), kind);
}

}  // namespace lockstep::train

#pragma once

#include <memory>
#include <vector>

#include "lockstep/monitor/devices/cpu_sensors.h"
#include "lockstep/monitor/devices/device.h"
#include "lockstep/monitor/devices/job_sampler.h"
#include "lockstep/monitor/devices/nvml.h"
#include "lockstep/topology/environment.h"
#include "lockstep/topology/machine.h"

namespace lockstep::monitor {

/// Looks at this machine and the jobs on it, again and again. Loads are those since the look
/// before; the first one has those since processes and machine were started.
///
/// One thread at a time may call a member. Machines without GPUs, or without their library, have
/// none in the table; that is no error.
class HostSampler {
 public:
  explicit HostSampler(topology::Environment environment);

  /// With what launchers on this machine have heard of the other hosts of their jobs.
  HostSnapshot sample();
  HostSnapshot sample_this_machine();

 private:
  std::vector<Device> devices(const std::vector<WatchedJob>& jobs);

  JobSampler jobs_;
  topology::Machine machine_;
  CpuSensors cpu_;
  std::unique_ptr<Nvml> nvml_;
};

/// The parts of a machine's cores that instances compute on, as their jobs number them, with the
/// stages of each.
std::vector<Device> cpu_devices_of(const std::vector<WatchedJob>& jobs,
                                   const topology::Machine& machine);

/// Notes on GPUs which stages they compute: by the processes that the driver sees on them, or where
/// it sees none of the instance's, as from within a container, by their numbers.
void attach_to_gpus(std::vector<Device>& gpus, const std::vector<WatchedJob>& jobs);

}  // namespace lockstep::monitor

#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/monitor/devices/cpu_sensors.h"
#include "lockstep/monitor/devices/device.h"
#include "lockstep/monitor/devices/nvml.h"
#include "lockstep/monitor/status/find_jobs.h"
#include "lockstep/topology/environment.h"
#include "lockstep/topology/machine.h"

namespace lockstep::monitor {

/// What the system says of a process that publishes a status.
struct ProcessUsage {
  std::optional<double> cpu_percent{};  ///< 100 for each core that it keeps busy
  std::int64_t memory_bytes = 0;        ///< that it shares with no other
  std::vector<int> cpus{};              ///< that it may run on
};

/// An instance of a job, and what its process takes.
struct WatchedInstance {
  FoundInstance found{};
  ProcessUsage usage{};
};

struct WatchedJob {
  std::string id{};
  std::string user{};
  std::string folder{};
  std::vector<WatchedInstance> instances{};
};

/// A machine and its jobs at one moment.
struct HostSnapshot {
  std::string host{};
  double unix_time = 0;
  std::int64_t steady_ns = 0;  ///< what `InstanceState::updated_ns` counts from
  std::vector<Device> devices{};
  std::vector<WatchedJob> jobs{};
};

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
  ProcessUsage usage_of(const InstanceFacts& facts, double now);
  std::vector<Device> devices(const std::vector<WatchedJob>& jobs);

  topology::Environment environment_;
  topology::Machine machine_;
  CpuSensors cpu_;
  std::unique_ptr<Nvml> nvml_;
  struct Seen {
    std::uint64_t cpu_ticks = 0;
    double seconds = 0;
  };
  /// By number and start.
  std::map<std::pair<int, std::uint64_t>, Seen> seen_;
};

/// The parts of a machine's cores that instances compute on, as their jobs number them, with the
/// stages of each.
std::vector<Device> cpu_devices_of(const std::vector<WatchedJob>& jobs,
                                   const topology::Machine& machine);

/// Notes on GPUs which stages they compute: by the processes that the driver sees on them, or where
/// it sees none of the instance's, as from within a container, by their numbers.
void attach_to_gpus(std::vector<Device>& gpus, const std::vector<WatchedJob>& jobs);

}  // namespace lockstep::monitor

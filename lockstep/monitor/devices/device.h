#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/monitor/status/instance_status.h"

namespace lockstep::monitor {

/// A stage of a replica that a device computes.
struct StageOnDevice {
  std::string job{};
  int instance = 0;
  int replica = 0;
  int stage = 0;
  bool is_split = false;  ///< whether the replica has more than one stage

  bool operator==(const StageOnDevice&) const = default;
};

/// What computes, as far as this machine tells of it. What it does not tell is empty.
struct Device {
  std::string host{};
  DeviceKind kind = DeviceKind::Cpu;
  /// Of a GPU as the driver counts; of cores as the job counts that uses them; nothing for all
  /// cores of the machine together.
  std::optional<int> id{};
  std::string model{};
  std::vector<int> cpus{};  ///< hardware threads
  std::int64_t memory_bytes = 0;
  std::int64_t used_memory_bytes = 0;
  std::optional<double> load{};  ///< in percent
  std::optional<double> temperature_celsius{};
  std::optional<double> power_watts{};
  std::vector<int> processes{};  ///< that compute on it, where the driver says
  std::vector<StageOnDevice> stages{};
};

}  // namespace lockstep::monitor

#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/events/status_sink.h"
#include "lockstep/topology/job_shape.h"

namespace lockstep::monitor {

using events::Phase;
using events::PhaseSeconds;

/// What computes a stage.
enum class DeviceKind : std::uint8_t { Cpu, Cuda };

/// "starting", "preparing", "training", "evaluating", "saving", "finishing".
std::string_view name_of(Phase phase) noexcept;
/// "cpu", "cuda".
std::string_view name_of(DeviceKind kind) noexcept;

/// Who an instance is: what does not change while it runs.
struct InstanceFacts {
  std::string job{};
  std::string host{};
  std::string user{};
  std::string command{};  ///< as it was called, in one line
  int process = 0;
  std::uint64_t start_ticks = 0;  ///< of the process: sets it apart from a later one of its number
  double start_time = 0;          ///< in seconds since 1970
  int instance = 0;
  int num_instances = 1;
  int restart_count = 0;
  topology::ReplicaRange replicas{0, 1};
  int num_replicas = 1;
  int devices_per_replica = 1;
  int threads_per_device = 0;  ///< 0 where nobody has said
  DeviceKind device_kind = DeviceKind::Cpu;
  std::vector<int> device_ids{};  ///< of each stage, replica by replica

  bool operator==(const InstanceFacts&) const = default;
};

/// The command without the program's folder, which says little and takes the room of what does.
std::string short_command(const InstanceFacts& facts);

/// What an instance does: the last that it said.
struct InstanceState {
  static constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

  Phase phase = Phase::Starting;
  std::int64_t epoch = 0;  ///< 0 before the first step
  std::int64_t step = 0;
  std::int64_t steps_of_epoch = 0;
  std::int64_t samples = 0;  ///< since it began
  double samples_per_second = 0;
  double loss = kUnknown;
  double accuracy = kUnknown;
  PhaseSeconds seconds{};  ///< since it began
  std::int64_t device_memory_bytes = 0;
  std::int64_t collectives = 0;   ///< that it has begun
  std::string collective{};       ///< the last of these
  bool is_in_collective = false;  ///< and whether it is not done yet
  std::int64_t updated_ns = 0;    ///< on the steady clock of its host
};

}  // namespace lockstep::monitor

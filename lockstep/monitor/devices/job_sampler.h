#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/monitor/devices/device.h"
#include "lockstep/monitor/status/find_jobs.h"
#include "lockstep/topology/environment.h"

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

/// Whether nobody has seen it end. One whose host is silent may still compute; on this machine,
/// where devices are divided among those that are alive, none is ever silent.
bool is_alive(const WatchedInstance& instance) noexcept;

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

/// Looks at the jobs of this machine, again and again, and not at its devices: no sensor is read
/// and no driver asked. CPU loads are those since the look before; the first one has those since
/// processes were started.
///
/// One thread at a time may call a member.
class JobSampler {
 public:
  explicit JobSampler(topology::Environment environment) : environment_(std::move(environment)) {}

  /// With what launchers on this machine have heard of the other hosts of their jobs.
  HostSnapshot sample();
  HostSnapshot sample_this_machine();

  /// Whether it has something to compare a process's load with: it has of those of the last look.
  bool knows(int process) const;

 private:
  struct Seen {
    std::uint64_t cpu_ticks = 0;
    double seconds = 0;
  };
  /// By number and start.
  using SeenProcesses = std::map<std::pair<int, std::uint64_t>, Seen>;

  ProcessUsage usage_of(const InstanceFacts& facts, double now, SeenProcesses& seen_now) const;

  topology::Environment environment_;
  SeenProcesses seen_;
};

}  // namespace lockstep::monitor

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::monitor {

/// How busy the hardware threads of this machine are, how warm its processor is and what it takes:
/// since the last `sample`, or since the machine was started for the first one.
///
/// One thread at a time may call a member. Whatever a kernel or a container does not tell is
/// nothing, never an error.
class CpuSensors {
 public:
  /// `root` stands before /proc and /sys: other than "" for tests.
  explicit CpuSensors(std::string root = {}) : root_(std::move(root)) {}

  void sample(double seconds_now);

  /// The mean over these threads in percent; over all where none are named.
  std::optional<double> load(std::span<const int> cpus = {}) const;
  std::optional<double> temperature_celsius() const { return temperature_celsius_; }
  std::optional<double> power_watts() const { return power_watts_; }

 private:
  struct Ticks {
    std::uint64_t busy = 0;
    std::uint64_t all = 0;
  };
  struct Energy {
    double joules = 0;
    double seconds = 0;
  };

  void sample_load();
  void sample_power(double seconds_now);

  std::string root_;
  std::map<int, Ticks> last_;
  std::map<int, Ticks> since_last_;
  std::optional<double> temperature_celsius_;
  std::optional<Energy> last_energy_;
  std::optional<double> power_watts_;
};

}  // namespace lockstep::monitor

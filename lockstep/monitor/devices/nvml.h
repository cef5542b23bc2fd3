#pragma once

#include <memory>
#include <string>
#include <vector>

#include "lockstep/monitor/devices/device.h"

namespace lockstep::monitor {

/// NVIDIA's library that tells of GPUs. It comes with the driver, so it is opened where it is found
/// when the program runs, and nothing of it is needed to build.
///
/// One thread at a time may call a member.
class Nvml {
 public:
  /// Throws `Unavailable` where there is no such library, or it has no GPU to tell of.
  explicit Nvml(const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;

  /// All GPUs of the machine as they are now. What one of them does not tell is empty.
  std::vector<Device> devices() const;

 private:
  struct Functions;
  std::unique_ptr<Functions> functions_;
};

}  // namespace lockstep::monitor

#pragma once

#include <cstdint>
#include <string>

namespace lockstep::gpu {

/// Whether this build has kernels for GPUs.
bool is_built() noexcept;

/// The GPUs of this machine: 0 where there is no driver, and in a build without CUDA.
int count_devices() noexcept;

struct DeviceInfo {
  std::string name;
  std::int64_t memory_bytes = 0;
  std::int64_t free_bytes = 0;
  int multiprocessors = 0;
  int compute_major = 0;  ///< compute capability
  int compute_minor = 0;
};

/// Errors: `Unavailable` where there is no such GPU.
DeviceInfo describe_device(int device);

/// The GPU that the calling thread works on from here on.
void use_device(int device);

}  // namespace lockstep::gpu

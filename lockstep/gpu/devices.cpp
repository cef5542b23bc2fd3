#include "lockstep/gpu/devices.h"

#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/gpu/check.h"

namespace lockstep::gpu {
namespace {

/// While it lives, the calling thread works on this GPU.
class DeviceScope {
 public:
  explicit DeviceScope(int device) {
    check(cudaGetDevice(&before_), "cudaGetDevice");
    use_device(device);
  }
  ~DeviceScope() { (void)cudaSetDevice(before_); }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  int before_ = 0;
};

}  // namespace

bool is_built() noexcept {
  return true;
}

int count_devices() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  (void)cudaGetLastError();
  return 0;
}

void use_device(int device) {
  const int count = count_devices();
  if (device < 0 || device >= count) {
    throw Error(ErrorKind::Unavailable,
                fmt::format("GPU {}: expected one of {}, counted from 0", device, count),
                count == 0 ? "--device cpu" : "");
  }
  check(cudaSetDevice(device), "cudaSetDevice");
}

DeviceInfo describe_device(int device) {
  const DeviceScope scope(device);
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  std::size_t free = 0;
  std::size_t total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {.name = properties.name,
          .memory_bytes = static_cast<std::int64_t>(total),
          .free_bytes = static_cast<std::int64_t>(free),
          .multiprocessors = properties.multiProcessorCount,
          .compute_major = properties.major,
          .compute_minor = properties.minor};
}

}  // namespace lockstep::gpu

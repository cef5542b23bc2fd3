#include <fmt/format.h>

#include "lockstep/base/error.h"
#include "lockstep/gpu/absent.h"
#include "lockstep/gpu/devices.h"

namespace lockstep::gpu {

void refuse_without_cuda(const char* what) {
  throw Error(ErrorKind::Unavailable, fmt::format("{}: this build has no kernels for GPUs", what),
              "configure with the preset 'cuda', or pass --device cpu");
}

bool is_built() noexcept {
  return false;
}

int count_devices() noexcept {
  return 0;
}

void use_device(int) {
  refuse_without_cuda("GPU");
}

DeviceInfo describe_device(int) {
  refuse_without_cuda("GPU");
}

}  // namespace lockstep::gpu

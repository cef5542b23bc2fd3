#include "lockstep/gpu/check.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::gpu {
namespace {

int current_device() noexcept {
  int device = -1;
  (void)cudaGetDevice(&device);
  return device;
}

}  // namespace

void check(cudaError_t result, const char* where) {
  if (result == cudaSuccess) return;
  (void)cudaGetLastError();  // what was reported is not reported again
  const auto message =
      fmt::format("{}: GPU {}: {}", where, current_device(), cudaGetErrorString(result));
  if (result == cudaErrorMemoryAllocation)
    throw Error(ErrorKind::Unavailable, message, "lower --batch-size");
  throw Error(ErrorKind::Bug, message,
              "run once more with CUDA_LAUNCH_BLOCKING=1: it then fails where the mistake is");
}

void check_launch(const char* kernel) {
  check(cudaGetLastError(), kernel);
}

}  // namespace lockstep::gpu

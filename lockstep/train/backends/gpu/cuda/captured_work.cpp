#include "lockstep/train/backends/gpu/cuda/captured_work.h"

#include <c10/cuda/CUDAFunctions.h>

#include <array>
#include <exception>
#include <mutex>

namespace lockstep::train {
namespace {

/// libtorch registers each graph with the random generator of its GPU, without a lock. Instances
/// that are threads of one process would corrupt the list of graphs.
std::mutex& generator_of(int device) {
  static std::array<std::mutex, C10_COMPILE_TIME_MAX_GPUS> generators;
  return generators.at(static_cast<std::size_t>(device));
}

}  // namespace

/// Other threads may use CUDA during the recording: those of the loader and of autograd.
CapturedWork::CapturedWork(const std::function<void()>& work, const CapturedWork* like)
    : device_(c10::cuda::current_device()) {
  const std::lock_guard lock(generator_of(device_));
  const auto pool = like == nullptr ? at::cuda::MempoolId_t{0, 0}
                                    : const_cast<CapturedWork*>(like)->graph_.pool();
  graph_.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
  std::exception_ptr failure;
  try {
    work();
  } catch (...) {
    failure = std::current_exception();
  }
  try {
    graph_.capture_end();
  } catch (...) {
    if (!failure) failure = std::current_exception();
  }
  if (failure) std::rethrow_exception(failure);
}

CapturedWork::~CapturedWork() {
  const std::lock_guard lock(generator_of(device_));
  graph_.reset();
}

void CapturedWork::launch() {
  const std::lock_guard lock(generator_of(device_));
  graph_.replay();
}

}  // namespace lockstep::train

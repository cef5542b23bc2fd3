#include "lockstep/train/on_gpu/captured_work.h"

#include <exception>

namespace lockstep::train {

/// Other threads may talk to CUDA meanwhile: the loader's, and autograd's.
CapturedWork::CapturedWork(const std::function<void()>& work, const CapturedWork* like) {
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

void CapturedWork::launch() {
  graph_.replay();
}

}  // namespace lockstep::train

#pragma once

#include <ATen/cuda/CUDAGraph.h>

#include <functional>
#include <memory>

namespace lockstep::train {

/// Work for a GPU that is recorded once, and launched many times: the same kernels on the same
/// memory. It keeps the memory that it allocates.
class CapturedWork {
 public:
  /// Records the work that `work` adds to libtorch's current stream, without running it. Shares the
  /// memory of `like`, if it is not null: the two must never run at the same time.
  ///
  /// Errors: those of `work`; those of libtorch if the host must decide what is computed.
  CapturedWork(const std::function<void()>& work, const CapturedWork* like);
  ~CapturedWork();
  CapturedWork(const CapturedWork&) = delete;
  CapturedWork& operator=(const CapturedWork&) = delete;

  /// On libtorch's current stream.
  void launch();

 private:
  int device_ = 0;
  at::cuda::CUDAGraph graph_;
};

}  // namespace lockstep::train

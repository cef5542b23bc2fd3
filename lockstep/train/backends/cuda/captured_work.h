#pragma once

#include <ATen/cuda/CUDAGraph.h>

#include <functional>
#include <memory>

namespace lockstep::train {

/// Work for a GPU that is recorded once and launched as one as often as wanted: the same kernels on
/// the same memory. What it allocates on the way stays its own.
class CapturedWork {
 public:
  /// Records what `work` gives to libtorch's current stream, without running it. `like`, where
  /// there is one, lends its memory: the two are never under way at the same time.
  ///
  /// Errors: what `work` throws; libtorch's, where it does something that only a host can decide.
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

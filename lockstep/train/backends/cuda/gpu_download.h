#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <cstddef>
#include <span>

#include "lockstep/gpu/memory.h"
#include "lockstep/train/backends/cuda/gpu_state.h"

namespace lockstep::train {

/// Brings a GPU's state home while the next steps run: it is set aside on the GPU, which takes no
/// time to speak of, and copied from there by a stream of its own.
///
/// One thread at a time.
class GpuDownload {
 public:
  /// `home` is where states will be written.
  GpuDownload(const GpuState& state, std::span<std::byte> home);

  /// Of what libtorch's current stream has been given so far. The one before must have arrived.
  void begin(std::byte* to);
  bool has_arrived() const { return arrived_.query(); }
  void wait() const { arrived_.synchronize(); }

 private:
  const GpuState& state_;
  gpu::PinnedRange home_;
  at::Tensor aside_;  ///< since the first time
  c10::cuda::CUDAStream copies_;
  at::cuda::CUDAEvent set_aside_;
  at::cuda::CUDAEvent arrived_;
};

}  // namespace lockstep::train

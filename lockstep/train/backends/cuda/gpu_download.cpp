#include "lockstep/train/backends/cuda/gpu_download.h"

#include <torch/types.h>

namespace lockstep::train {

GpuDownload::GpuDownload(const GpuState& state, std::span<std::byte> home)
    : state_(state),
      home_(home),
      copies_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false, state.device().index())) {}

void GpuDownload::begin(std::byte* to) {
  const auto bytes = state_.shape().bytes();
  const auto current = c10::cuda::getCurrentCUDAStream(state_.device().index());
  if (!aside_.defined()) {
    aside_ = at::empty({static_cast<std::int64_t>(bytes)},
                       at::TensorOptions(state_.device()).dtype(at::kByte));
  }
  gpu::copy_on_device(state_.data(), aside_.data_ptr(), bytes, current.stream());
  set_aside_.record(current);
  set_aside_.block(copies_);
  gpu::copy_to_host(aside_.data_ptr(), to, bytes, copies_.stream());
  arrived_.record(copies_);
}

}  // namespace lockstep::train

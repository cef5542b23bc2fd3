#pragma once

#include <ATen/core/Tensor.h>

#include "lockstep/gpu/stream.h"

namespace lockstep::nn {

/// What libtorch gives the calling thread's work with this tensor, of a GPU, to.
gpu::Stream gpu_stream_of(const at::Tensor& tensor);

}  // namespace lockstep::nn

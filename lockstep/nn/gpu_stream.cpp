#include "lockstep/nn/gpu_stream.h"

#include <c10/cuda/CUDAStream.h>

namespace lockstep::nn {

gpu::Stream gpu_stream_of(const at::Tensor& tensor) {
  return c10::cuda::getCurrentCUDAStream(tensor.device().index()).stream();
}

}  // namespace lockstep::nn

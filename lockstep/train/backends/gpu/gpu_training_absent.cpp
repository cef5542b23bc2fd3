#include "lockstep/gpu/absent.h"
#include "lockstep/train/backends/gpu/gpu_training.h"

namespace lockstep::train {

std::unique_ptr<GpuTraining> make_gpu_training(GpuSetup /*setup*/,
                                               std::unique_ptr<nn::Model> /*model*/) {
  gpu::refuse_without_cuda("training on a GPU");
}

}  // namespace lockstep::train

#include "lockstep/train/backends/cpu/cpu_backend.h"
#include "lockstep/train/backends/gpu/gpu_group.h"
#include "lockstep/train/backends/gpu/host_sum_gpu_backend.h"
#include "lockstep/train/backends/gpu/resident_gpu_backend.h"

namespace lockstep::train {

/// The state stays on the GPU if no other instance has a part in it, or if the GPUs can sum their
/// leaves themselves.
std::unique_ptr<TrainingBackend> make_backend(const BackendContext& context) {
  if (!context.layout().gpu) return std::make_unique<CpuBackend>(context);
  auto& communicator = context.communicator();
  if (context.setup.optimizer.kind() == OptimizerKind::Custom) {
    return std::make_unique<HostSumGpuBackend>(context);
  }
  auto group = join_gpus(communicator, context.setup.options, *context.layout().gpu);
  if (communicator.size() > 1 && !group) return std::make_unique<HostSumGpuBackend>(context);
  return std::make_unique<ResidentGpuBackend>(context, std::move(group));
}

}  // namespace lockstep::train

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/gpu/devices.h"
#include "lockstep/train/backends/cpu/cpu_backend.h"
#include "lockstep/train/backends/gpu/host_sum_gpu_backend.h"
#include "lockstep/train/backends/gpu/resident_gpu_backend.h"

namespace lockstep::train {
namespace {

/// Returns the values of all instances, by rank.
std::vector<std::int64_t> from_all(comm::Communicator& communicator, std::int64_t mine,
                                   std::string_view name) {
  std::vector<std::int64_t> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather({&mine, 1, DataType::I64, name},
                          {all.data(), std::ssize(all), DataType::I64, name});
  return all;
}

/// Finds two ranks that share a GPU.
std::optional<std::pair<int, int>> find_shared(const comm::Communicator& communicator,
                                               const std::vector<std::int64_t>& gpus) {
  std::map<std::pair<int, std::int64_t>, int> taken;
  for (int rank = 0; rank < communicator.size(); ++rank) {
    const auto index = static_cast<std::size_t>(rank);
    const auto [found, is_new] =
        taken.try_emplace({communicator.hosts()[index], gpus[index]}, rank);
    if (!is_new) return std::pair{found->second, rank};
  }
  return std::nullopt;
}

[[noreturn]] void refuse_shared(const comm::Communicator& communicator,
                                const std::pair<int, int>& ranks, std::int64_t gpu) {
  const auto instance = [&](int rank) {
    return communicator.instances()[static_cast<std::size_t>(rank)];
  };
  throw Error(ErrorKind::Options,
              fmt::format("--gpu-transport nccl: expected a GPU for each instance, found instances "
                          "{} and {} on GPU {} of one host",
                          instance(ranks.first), instance(ranks.second), gpu),
              "--gpu-transport host, or as many --num-instances as there are GPUs");
}

bool wants_group(comm::Communicator& communicator, GpuTransport transport, int gpu) {
  if (transport == GpuTransport::Host) return false;
  if (communicator.size() == 1) return transport == GpuTransport::Nccl;
  const auto gpus = from_all(communicator, gpu, "gpus");
  const auto shared = find_shared(communicator, gpus);
  if (shared && transport == GpuTransport::Nccl) {
    refuse_shared(communicator, *shared, gpus[static_cast<std::size_t>(shared->first)]);
  }
  if (shared) return false;
  const auto have_nccl = from_all(communicator, gpu::NcclGroup::is_there() ? 1 : 0, "nccl");
  return transport == GpuTransport::Nccl ||
         std::ranges::all_of(have_nccl, [](std::int64_t has) { return has == 1; });
}

/// Joins the GPUs of all instances into a group that sums gradients. Returns null if the host sums
/// them. `gpu` is the GPU of this instance. Every instance calls it.
///
/// Errors: `Options` if NCCL is requested and instances share a GPU; `Unavailable` without NCCL.
std::shared_ptr<const gpu::NcclGroup> join_gpus(comm::Communicator& communicator,
                                                const Options& options, int gpu) {
  if (!wants_group(communicator, options.gpu_transport(), gpu)) return nullptr;
  gpu::use_device(gpu);
  gpu::NcclGroup::Id id{};
  if (communicator.rank() == 0) id = gpu::NcclGroup::make_id();
  communicator.broadcast({id.data(), std::ssize(id), DataType::U8, "nccl"}, 0);
  return std::make_shared<gpu::NcclGroup>(id, communicator.rank(), communicator.size());
}

}  // namespace

/// The state stays on the GPU if this is the only instance, or if the GPUs can sum their leaves
/// themselves, and if the optimizer is not custom.
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

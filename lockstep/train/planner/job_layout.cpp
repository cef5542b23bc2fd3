#include "lockstep/train/planner/job_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <set>
#include <span>

#include "lockstep/base/error.h"
#include "lockstep/data/loader/loader.h"
#include "lockstep/gpu/devices.h"
#include "lockstep/launch/discover/machine_discovery.h"
#include "lockstep/plan/pipeline_schedule.h"
#include "lockstep/topology/machine.h"

namespace lockstep::train {
namespace {

/// The same rule as that of the launcher.
int decide_threads(const Options& options, int stages_on_host, int usable_cores) {
  if (options.threads_per_device()) return *options.threads_per_device();
  return std::max(1, usable_cores / stages_on_host);
}

/// Two replicas must share all of their devices, each for the same stage, or none. Otherwise one
/// replica could overtake another, and both would wait forever.
void check_round_robin(const JobLayout& layout) {
  const auto turns = static_cast<std::size_t>(layout.num_first_devices());
  const auto& all = layout.device_of;
  for (std::size_t a = 0; a < all.size(); ++a) {
    for (std::size_t b = a + 1; b < all.size(); ++b) {
      bool fits = true;
      for (std::size_t stage = 0; stage < all[a].size(); ++stage) {
        fits &= (all[a][stage] == all[b][stage]) == ((b - a) % turns == 0);
      }
      if (fits) continue;
      throw Error(ErrorKind::Options,
                  fmt::format("devices: expected stages to be dealt out round robin, found "
                              "replicas {} and {} that share some of their devices",
                              layout.local.first + static_cast<int>(a),
                              layout.local.first + static_cast<int>(b)),
                  "leave LOCKSTEP_DEVICE_IDS to the launcher");
    }
  }
}

/// `ids` are the devices of the host, by replica and stage.
void number_devices(std::span<const int> ids, JobLayout& layout) {
  auto next = ids.begin();
  for (int replica = 0; replica < layout.local.count; ++replica) {
    auto& devices = layout.device_of.emplace_back();
    for (int stage = 0; stage < layout.stages; ++stage, ++next) {
      auto found = std::find(layout.device_ids.begin(), layout.device_ids.end(), *next);
      if (found == layout.device_ids.end()) {
        found = layout.device_ids.insert(layout.device_ids.end(), *next);
      }
      devices.push_back(static_cast<int>(found - layout.device_ids.begin()));
    }
  }
  layout.num_devices = static_cast<int>(layout.device_ids.size());
  check_round_robin(layout);
}

JobLayout lay_out_alone(const Options& options) {
  const auto cores = launch::discover_machine().usable_cores();
  JobLayout layout{.replicas = options.replicas().value_or(1),
                   .stages = options.devices_per_replica()};
  layout.local = {0, layout.replicas};
  const int stages = layout.replicas * layout.stages;
  layout.threads_per_device = decide_threads(options, stages, cores);
  const int devices = topology::devices_on_host(cores, layout.threads_per_device, stages);
  std::vector<int> ids(static_cast<std::size_t>(stages));
  for (int i = 0; i < stages; ++i) ids[static_cast<std::size_t>(i)] = i % devices;
  number_devices(ids, layout);
  return layout;
}

/// Number of cores that at least one instance of this host may use. Each instance may be bound to
/// some cores.
int cores_of_all(const World& world) {
  using Mask = std::array<std::int64_t, 64>;  // a bit for each CPU
  constexpr std::int64_t kWords = std::tuple_size_v<Mask>;
  Mask mine{};
  for (const auto& core : launch::discover_machine().cores) {
    const auto cpu = static_cast<std::size_t>(core.cpus.front());
    if (cpu / 64 < mine.size()) mine[cpu / 64] |= std::int64_t{1} << (cpu % 64);
  }
  std::vector<Mask> all(static_cast<std::size_t>(world.num_instances()));
  world.all_gather({&mine, kWords, DataType::I64, "cores"},
                   {all.data(), kWords * world.num_instances(), DataType::I64, "cores"});
  int count = 0;
  for (std::size_t word = 0; word < mine.size(); ++word) {
    std::uint64_t any = 0;
    for (const auto& mask : all) any |= static_cast<std::uint64_t>(mask[word]);
    count += std::popcount(any);
  }
  return count;
}

/// All stages of an instance are on its GPU, which computes whole replicas.
void put_on_gpu(const World& world, JobLayout& layout) {
  layout.gpu = gpu_of(world.local_instance());
  layout.num_devices = 1;
  layout.device_ids = {*layout.gpu};
  const std::vector<int> stages(static_cast<std::size_t>(layout.stages), 0);
  layout.device_of.assign(static_cast<std::size_t>(layout.local.count), stages);
}

int agree_on_threads(const Options& options) {
  const auto& world = options.world();
  if (world.identity().threads_per_device) return *world.identity().threads_per_device;
  const int stages = world.num_replicas() * world.devices_per_replica();
  std::int32_t threads = decide_threads(options, stages, cores_of_all(world));
  world.broadcast({&threads, 1, DataType::I32, "threads per device"}, 0);
  return threads;
}

JobLayout lay_out_on_cores(const Options& options) {
  const auto& world = options.world();
  if (!world.launched() && world.num_instances() == 1) return lay_out_alone(options);
  JobLayout layout{.replicas = world.num_replicas(),
                   .local = {world.first_replica(), world.num_local_replicas()},
                   .stages = options.devices_per_replica(),
                   .threads_per_device = agree_on_threads(options)};
  number_devices(world.device_ids(), layout);
  return layout;
}

/// The samples of a launch are held until the GPU has them, while those of the next are filled.
int batches_for_gpu(const Options& options, int replicas) {
  const auto at_once = steps_per_launch(options) * options.gradient_accumulation() * replicas;
  const auto buffers = 2 * at_once + 2;
  if (buffers <= data::kMostBuffers) return static_cast<int>(buffers);
  throw Error(ErrorKind::Options,
              fmt::format("DataLoader: expected at most {} micro-batches in a launch, found {}",
                          data::kMostBuffers / 2 - 1, at_once),
              "a lower --gradient-accumulation, or fewer --device-iterations");
}

}  // namespace

int gpu_of(int local_instance) {
  const int gpus = gpu::count_devices();
  if (gpus == 0) {
    throw Error(ErrorKind::Unavailable,
                gpu::is_built() ? "--device cuda: expected a GPU, found none"
                                : "--device cuda: this build has no kernels for GPUs",
                gpu::is_built() ? "--device cpu"
                                : "configure with the preset 'cuda', or pass --device cpu");
  }
  return local_instance % gpus;
}

std::vector<int> JobLayout::ids_by_stage() const {
  std::vector<int> ids;
  for (const auto& of_replica : device_of) {
    for (const int device : of_replica) {
      ids.push_back(device_ids[static_cast<std::size_t>(device)]);
    }
  }
  return ids;
}

int JobLayout::num_first_devices() const {
  std::set<int> devices;
  for (const auto& of_replica : device_of) devices.insert(of_replica.front());
  return static_cast<int>(devices.size());
}

JobLayout lay_out(const Options& options) {
  auto layout = lay_out_on_cores(options);
  if (options.device() == DeviceKind::Cuda) put_on_gpu(options.world(), layout);
  return layout;
}

std::int64_t steps_per_launch(const Options& options) {
  return std::min(options.device_iterations(), options.steps_at_once());
}

int loader_buffers(const Options& options, const JobLayout& layout) {
  return layout.gpu ? batches_for_gpu(options, layout.local.count)
                    : batches_at_once(options, layout.num_first_devices());
}

int batches_at_once(const Options& options, int first_devices) {
  const auto in_use = plan::most_in_flight({.schedule = options.pipeline(),
                                            .stages = options.devices_per_replica(),
                                            .micro_batches = options.gradient_accumulation()},
                                           0);
  // Each device holds the micro-batches in flight, and requests another, which is being filled.
  const auto buffers = first_devices * (in_use + 1) + 2;
  if (buffers <= data::kMostBuffers) return static_cast<int>(buffers);
  throw Error(
      ErrorKind::Options,
      fmt::format("DataLoader: expected at most {} micro-batches at the same time, found {} "
                  "with the pipeline schedule {}",
                  data::kMostBuffers, buffers, name_of(options.pipeline())),
      "--pipeline 1f1b, or a lower --gradient-accumulation");
}

}  // namespace lockstep::train

#include "lockstep/train/backends/gpu/gpu_passes.h"

#include <algorithm>
#include <limits>

#include "lockstep/gpu/pictures/set_layout.h"
#include "lockstep/gpu/update/leaf_steps.h"

namespace lockstep::train {
namespace {

/// The largest divisor of `all` that is at most `most`.
std::int64_t largest_share(std::int64_t all, std::int64_t most) {
  for (auto share = std::clamp<std::int64_t>(most, 1, all); share > 1; --share) {
    if (all % share == 0) return share;
  }
  return 1;
}

constexpr std::int64_t kFloat = sizeof(float);

/// All memory of a pass, relative to the activations that it keeps. The rest is for intermediate
/// results, and for the workspaces of libraries.
constexpr double kBesideActivations = 1.35;

std::int64_t size_of_compute(const GpuDemand& demand) {
  return static_cast<std::int64_t>(size_of(demand.compute));
}

/// Activations of one micro-batch.
std::int64_t activation_bytes(const GpuDemand& demand) {
  const auto share = static_cast<double>(size_of_compute(demand)) / kFloat;
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(static_cast<double>(demand.kept_bytes) * share *
                                   kBesideActivations));
}

/// One version to compute with and one that is being downloaded, the 16-bit weights of the model,
/// and the gradients of replicas that have several passes.
std::int64_t state_bytes(const GpuDemand& demand) {
  const auto& weights = demand.weights;
  const auto half = demand.compute == DataType::F32 ? 0 : size_of_compute(demand);
  return 2 * static_cast<std::int64_t>(demand.shape.bytes()) +
         half * (weights.num_parameters + weights.num_frozen) +
         kFloat * (weights.num_parameters + weights.num_frozen);
}

std::int64_t sample_bytes(const GpuDemand& demand) {
  std::int64_t loaded = 0;
  std::int64_t numbers = 0;
  for (const auto& field : demand.samples.fields) {
    loaded += static_cast<std::int64_t>(data::bytes_of(field));
    numbers += data::count_of(field);
  }
  const auto per_step = demand.input.samples_per_step();
  const auto computed = per_step * numbers * size_of_compute(demand);
  if (!demand.samples.stored) return 2 * demand.input.steps * per_step * loaded + computed;
  const auto& set = *demand.samples.stored->set;
  return gpu::lay_out_set(set.fields(), set.size(), std::numeric_limits<std::int64_t>::max())
             .bytes +
         computed;
}

}  // namespace

int count_leaves(std::span<const GpuPass> passes) {
  return static_cast<int>(std::ranges::count(passes, std::int64_t{0}, &GpuPass::first_micro_batch));
}

std::vector<GpuPass> choose_passes(const GpuInputShape& input, Fuse fuse, bool is_deterministic,
                                   std::int64_t most_groups) {
  const bool whole_replicas = fuse == Fuse::Auto && most_groups >= input.micro_batches;
  std::int64_t replicas = 1;
  std::int64_t micro_batches = input.micro_batches;
  if (fuse == Fuse::Off) micro_batches = 1;
  if (whole_replicas && !is_deterministic) {
    replicas = largest_share(input.replicas.count, most_groups / input.micro_batches);
  }
  if (fuse == Fuse::Auto && !whole_replicas && !is_deterministic) {
    micro_batches = largest_share(input.micro_batches, most_groups);
  }
  std::vector<GpuPass> passes;
  for (int replica = 0; replica < input.replicas.count; replica += static_cast<int>(replicas)) {
    for (std::int64_t first = 0; first < input.micro_batches; first += micro_batches) {
      passes.push_back({.first_replica = input.replicas.first + replica,
                        .replicas = static_cast<int>(replicas),
                        .first_micro_batch = first,
                        .micro_batches = micro_batches});
    }
  }
  return passes;
}

GpuMemory gpu_memory(const GpuDemand& demand, std::int64_t groups) {
  const auto rows = gpu::leaf_steps(demand.input.replicas.count).num_rows;
  return {.state = state_bytes(demand),
          .sums = rows * demand.weights.num_elements * kFloat,
          .samples = sample_bytes(demand),
          .activations = groups * activation_bytes(demand)};
}

std::int64_t groups_that_fit(const GpuDemand& demand, std::int64_t bytes) {
  const auto left = bytes - gpu_memory(demand, 0).total();
  return std::max<std::int64_t>(1, left / activation_bytes(demand));
}

}  // namespace lockstep::train

#include <algorithm>

#include "lockstep/train/backends/gpu/gpu_training.h"

namespace lockstep::train {
namespace {

/// The most that fit, among those that share `all` evenly.
std::int64_t largest_share(std::int64_t all, std::int64_t most) {
  for (auto share = std::clamp<std::int64_t>(most, 1, all); share > 1; --share) {
    if (all % share == 0) return share;
  }
  return 1;
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

}  // namespace lockstep::train

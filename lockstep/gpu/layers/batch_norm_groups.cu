#include <cuda_runtime.h>

#include "lockstep/gpu/check.h"
#include "lockstep/gpu/layers/batch_norm_groups.h"

// A block has 32 channels, and two numbers of each, in a warp for each of its rows. What takes time
// is the way to memory, and so as much as possible is asked for at once.

namespace lockstep::gpu {
namespace {

constexpr int kChannels = 32;
constexpr int kWarps = 16;
constexpr int kGroups = 64;
/// Of the tree over chains: more than anyone has.
constexpr int kLevels = 32;

struct Sources {
  const float* of[2];
};

struct Fetched {
  float numbers[2][kGroups][kChannels];
};

struct Extent {
  std::int64_t groups;
  std::int64_t channels;
};

__device__ std::int64_t my_channel() {
  return static_cast<std::int64_t>(blockIdx.x) * kChannels + threadIdx.x;
}

/// Numbers of `count` groups from `first` on.
__device__ void fetch(const Sources& sources, const Extent& extent, std::int64_t first, int count,
                      Fetched& fetched) {
  const auto channel = my_channel();
#pragma unroll
  for (int i = 0; i < 2 * kGroups / kWarps; ++i) {
    const int at = i * kWarps + static_cast<int>(threadIdx.y);
    const int which = at % 2;
    const int group = at / 2;
    if (group >= count || channel >= extent.channels) continue;
    const float* source = which == 0 ? sources.of[0] : sources.of[1];
    fetched.numbers[which][group][threadIdx.x] =
        source[(first + group) * extent.channels + channel];
  }
}

/// Calls `take(number)` for the groups in order, in the two warps that have a number each.
template <typename Take>
__device__ void for_groups(const Sources& sources, const Extent& extent, Fetched& fetched,
                           const Take& take) {
  const int which = static_cast<int>(threadIdx.y);
  for (std::int64_t first = 0; first < extent.groups; first += kGroups) {
    const int count = static_cast<int>(min(std::int64_t{kGroups}, extent.groups - first));
    fetch(sources, extent, first, count, fetched);
    __syncthreads();
    if (which < 2 && my_channel() < extent.channels) {
#pragma unroll 8
      for (int i = 0; i < count; ++i) take(fetched.numbers[which][i][threadIdx.x]);
    }
    __syncthreads();
  }
}

/// Sums of leaves along the fixed binary tree: a node is its left half plus its right one. Leaves
/// come in order, so all that waits for its right half is one node of each level.
class Tree {
 public:
  __device__ explicit Tree(float (&nodes)[kLevels][kChannels]) : nodes_(nodes) {}

  __device__ void add(float leaf) {
    int level = 0;
    for (; ((leaves_ >> level) & 1U) != 0; ++level) leaf = nodes_[level][threadIdx.x] + leaf;
    nodes_[level][threadIdx.x] = leaf;
    ++leaves_;
  }
  /// Nodes whose right half has no leaves are their left one.
  __device__ float sum() const {
    float sum = 0;
    bool is_first = true;
    for (int level = 0; level < kLevels; ++level) {
      if (((leaves_ >> level) & 1U) == 0) continue;
      const float node = nodes_[level][threadIdx.x];
      sum = is_first ? node : node + sum;
      is_first = false;
    }
    return sum;
  }

 private:
  float (&nodes_)[kLevels][kChannels];
  unsigned leaves_ = 0;
};

struct RunningWork {
  Sources sources;
  Extent extent;
  float* running[2];
  float factor[2];  ///< that makes of a group's number what running ones move towards
  float momentum;
  std::int64_t chains;
  std::int64_t* count;
};

/// Where the running number of a chain goes from `start`.
__device__ float run_chain(const RunningWork& work, int which, std::int64_t chain, float start) {
  const auto length = work.extent.groups / work.chains;
  const float* number = (which == 0 ? work.sources.of[0] : work.sources.of[1]) +
                        chain * length * work.extent.channels + my_channel();
  const float factor = which == 0 ? work.factor[0] : work.factor[1];
  float value = start;
#pragma unroll 8
  for (std::int64_t i = 0; i < length; ++i, number += work.extent.channels) {
    value = fmaf(work.momentum, *number * factor, (1.0F - work.momentum) * value);
  }
  return value;
}

/// Chains go side by side in the warps; then one warp for each of the two numbers adds them up in
/// order.
__global__ void __launch_bounds__(kChannels* kWarps)
    move_running_kernel(const __grid_constant__ RunningWork work) {
  constexpr int kAtOnce = kWarps / 2;
  __shared__ float ends[2][kAtOnce][kChannels];
  __shared__ float nodes[2][kLevels][kChannels];
  const int which = static_cast<int>(threadIdx.y) % 2;
  const int mine = static_cast<int>(threadIdx.y) / 2;
  const bool has_channel = my_channel() < work.extent.channels;
  float* running = (which == 0 ? work.running[0] : work.running[1]) + my_channel();
  const float start = has_channel ? *running : 0.0F;
  Tree tree(nodes[which]);
  for (std::int64_t first = 0; first < work.chains; first += kAtOnce) {
    const int count = static_cast<int>(min(std::int64_t{kAtOnce}, work.chains - first));
    if (has_channel && mine < count) {
      ends[which][mine][threadIdx.x] = run_chain(work, which, first + mine, start);
    }
    __syncthreads();
    if (mine == 0) {
      for (int i = 0; i < count; ++i) tree.add(ends[which][i][threadIdx.x]);
    }
    __syncthreads();
  }
  if (has_channel && mine == 0) *running = tree.sum() / static_cast<float>(work.chains);
  const bool is_first = blockIdx.x == 0 && threadIdx.x == 0 && threadIdx.y == 0;
  if (is_first && work.count != nullptr) *work.count += work.extent.groups / work.chains;
}

struct AddWork {
  Sources sources;
  Extent extent;
  float* sums[2];
};

__global__ void __launch_bounds__(kChannels* kWarps)
    add_groups_kernel(const __grid_constant__ AddWork work) {
  __shared__ Fetched fetched;
  const int which = static_cast<int>(threadIdx.y);
  float sum = 0;
  for_groups(work.sources, work.extent, fetched, [&](float number) { sum += number; });
  if (which >= 2 || my_channel() >= work.extent.channels) return;
  float* to = which == 0 ? work.sums[0] : work.sums[1];
  if (to != nullptr) to[my_channel()] = sum;
}

unsigned blocks_for(const NormShape& shape) {
  return static_cast<unsigned>((shape.channels + kChannels - 1) / kChannels);
}

}  // namespace

void move_running(const NormShape& shape, const NormRunning& running, const float* mean,
                  const float* variance, Stream stream) {
  const auto rows = static_cast<float>(shape.rows);
  const RunningWork work{.sources = {{mean, variance}},
                         .extent = {shape.groups, shape.channels},
                         .running = {running.mean, running.variance},
                         .factor = {1.0F, shape.rows > 1 ? rows / (rows - 1.0F) : 1.0F},
                         .momentum = running.momentum,
                         .chains = running.chains,
                         .count = running.count};
  move_running_kernel<<<blocks_for(shape), dim3(kChannels, kWarps), 0, stream>>>(work);
  check_launch("batch norm: running statistics");
}

void add_groups(const NormShape& shape, const float* weight_sums, const float* bias_sums,
                float* weight_gradient, float* bias_gradient, Stream stream) {
  const AddWork work{.sources = {{weight_sums, bias_sums}},
                     .extent = {shape.groups, shape.channels},
                     .sums = {weight_gradient, bias_gradient}};
  add_groups_kernel<<<blocks_for(shape), dim3(kChannels, kWarps), 0, stream>>>(work);
  check_launch("batch norm: gradients of parameters");
}

}  // namespace lockstep::gpu

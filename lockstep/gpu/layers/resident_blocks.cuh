#pragma once

#include <cuda_runtime.h>

#include <iterator>
#include <type_traits>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/gpu/check.h"
#include "lockstep/gpu/layers/async_copy.cuh"
#include "lockstep/gpu/layers/batch_norm_paths.h"
#include "lockstep/gpu/layers/cluster.cuh"
#include "lockstep/gpu/layers/norm_tile.cuh"
#include "lockstep/gpu/layers/packets.cuh"

// Kernels that read a batch once. Each thread first asks for all its packets of x, into registers,
// and of a second tensor, into slots of shared memory that only it uses. Sums then go over the
// block and the cluster, and the results are made from what is still there.
//
// Where a part of the rows is more than its block can keep, all chunks are read for the sums, and
// all but the last once more after them, the latest first.

namespace lockstep::gpu {

inline constexpr int kMaxCluster = 16;

/// Blocks that a multiprocessor should run at once, so that one loads while another stores: as many
/// as have registers for their packets and some 60 more.
constexpr int blocks_at_once(int threads, int packets) {
  const int per_thread = packets >= 16 ? 128 : packets >= 8 ? 96 : 80;
  const int blocks = 65536 / (per_thread * threads);
  return blocks < 1 ? 1 : blocks;
}

/// What the blocks of a cluster found, each block's copy of it.
using ClusterResults = float[2][kMaxCluster][kMaxWidth];

/// Hands this block's two numbers of each channel to all blocks of the cluster. For all threads to
/// call, once, after having arrived at the cluster once.
__device__ inline void share_results(const Deal& deal, int part, bool is_within_slice, float first,
                                     float second, ClusterResults& results) {
  wait_for_cluster();  // all blocks run, and so have memory to write to
  if (is_within_slice) {
    for (int rank = 0; rank < deal.parts; ++rank) {
      write_to_block(rank, first, &results[0][part][threadIdx.x]);
      write_to_block(rank, second, &results[1][part][threadIdx.x]);
    }
  }
  arrive_at_cluster();
  wait_for_cluster();
}

template <Reading reading, typename T, int kCount, int kPackets, typename Tile>
__device__ void load_chunk_as(const T* from, const Tile& tile, int chunk,
                              Packet<T, kCount> (&packets)[kPackets]) {
  const int count = tile.count(chunk);
#pragma unroll
  for (int i = 0; i < kPackets; ++i) {
    packets[i] =
        i < count ? load_packet<kCount, reading>(from + tile.offset(chunk, i)) : zeros<T, kCount>();
  }
}

template <typename T, int kCount, int kPackets, typename Tile>
__device__ void load_chunk(const T* from, const Tile& tile, int chunk,
                           Packet<T, kCount> (&packets)[kPackets]) {
  if (tile.chunks() == 1) {
    load_chunk_as<Reading::Once>(from, tile, chunk, packets);
  } else {
    load_chunk_as<Reading::Again>(from, tile, chunk, packets);
  }
}

/// Reads of shared memory that come later are not begun before: the compiler would otherwise begin
/// so many at once that registers do not suffice.
__device__ inline void hold_reads() {
  __syncwarp();
}

/// Packets of the calling thread in shared memory. Nobody else touches them: no barrier is needed.
template <typename T, int kThreads, int kPackets>
class Slots {
 public:
  __device__ explicit Slots(uint4* memory) : mine_(memory + threadIdx.x) {}

  /// Begins to load a chunk; zeros where there is none.
  template <typename Tile>
  __device__ void fetch(const T* from, const Tile& tile, int chunk) {
    const int count = tile.count(chunk);
    const T* packet = from + tile.offset(chunk, 0);
#pragma unroll
    for (int i = 0; i < kPackets; ++i, packet += tile.stride()) {
      copy_async(i < count ? packet : from, i < count, mine_ + i * kThreads);
    }
  }
  __device__ void wait() const {
    wait_for_copies();
  }

  __device__ Packet<T, kWide<T>> read(int i) const {
    const uint4 all = mine_[i * kThreads];
    return {{all.x, all.y, all.z, all.w}};
  }
  template <int half>
  __device__ Packet<T, kWide<T> / 2> read_half(int i) const {
    const uint2 words = reinterpret_cast<const uint2*>(mine_ + i * kThreads)[half];
    return {{words.x, words.y}};
  }
  __device__ void write(int i, const Packet<T, kWide<T>>& packet) {
    mine_[i * kThreads] =
        make_uint4(packet.words[0], packet.words[1], packet.words[2], packet.words[3]);
  }
  template <int half>
  __device__ void write_half(int i, const Packet<T, kWide<T> / 2>& packet) {
    reinterpret_cast<uint2*>(mine_ + i * kThreads)[half] =
        make_uint2(packet.words[0], packet.words[1]);
  }

 private:
  uint4* mine_;
};

/// A kernel and all that its launch takes.
template <typename Work>
struct ResidentLaunch {
  void (*kernel)(Work);
  int threads;
  int cluster;
  std::size_t slot_bytes;
};

template <typename Work>
void launch(const ResidentLaunch<Work>& what, unsigned blocks, const Work& work, Stream stream) {
  const auto* kernel = reinterpret_cast<const void*>(what.kernel);
  const auto set = [kernel](cudaFuncAttribute attribute, int value) {
    check(cudaFuncSetAttribute(kernel, attribute, value), "batch norm");
  };
  set(cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(what.slot_bytes));
  set(cudaFuncAttributePreferredSharedMemoryCarveout, cudaSharedmemCarveoutMaxShared);
  if (what.cluster > 8) set(cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = static_cast<unsigned>(what.cluster);
  cluster.val.clusterDim.y = 1;
  cluster.val.clusterDim.z = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(static_cast<unsigned>(what.threads));
  config.dynamicSmemBytes = what.slot_bytes;
  config.stream = stream;
  config.attrs = &cluster;
  config.numAttrs = what.cluster > 1 ? 1 : 0;
  check(cudaLaunchKernelEx(&config, what.kernel, work), "batch norm");
}

/// Calls `run.template operator()<threads, packets>()` with those of the path.
template <typename Run, std::size_t... i>
void with_block_of(const NormPath& path, const Run& run, std::index_sequence<i...>) {
  const auto try_one = [&]<std::size_t k>(std::integral_constant<std::size_t, k>) {
    constexpr auto block = kResidentBlocks[k];
    if (path.threads != block.threads || path.packets != block.packets) return false;
    run.template operator()<block.threads, block.packets>();
    return true;
  };
  if ((try_one(std::integral_constant<std::size_t, i>{}) || ...)) return;
  throw Error(ErrorKind::Options, "batch norm: no kernel has blocks of " + to_string(path));
}

inline constexpr auto kEachResidentBlock = std::make_index_sequence<std::size(kResidentBlocks)>();

}  // namespace lockstep::gpu

#pragma once

#include <cstdint>

#include "lockstep/base/data_type.h"
#include "lockstep/base/random_stream.h"
#include "lockstep/gpu/stream.h"

namespace lockstep::gpu {

/// Where in a model something is drawn: in the n-th random operation of a block.
struct DrawPlace {
  std::uint32_t block = 0;
  std::uint32_t call = 0;
};

/// What a micro-batch draws from, on whatever device.
constexpr std::uint64_t key_of_micro_batch(std::uint64_t seed, std::uint64_t step,
                                           std::uint32_t replica,
                                           std::uint32_t micro_batch) noexcept {
  return stream_of(seed, step, (std::uint64_t{replica} << 32) | micro_batch).key();
}
constexpr RandomStream stream_of_call(std::uint64_t key_of_micro_batch,
                                      const DrawPlace& place) noexcept {
  return stream_of(key_of_micro_batch, place.block, place.call);
}

/// Whom a batch of several micro-batches is for: those of one replica follow each other, then come
/// those of the next. The number of the step stands in the GPU's memory, so that a step that was
/// captured once draws anew each time.
struct GroupKeys {
  std::uint64_t seed = 0;
  const std::int64_t* step = nullptr;
  std::uint32_t first_replica = 0;
  std::uint32_t first_micro_batch = 0;
  std::uint32_t micro_batches = 1;  ///< of each replica
  std::uint32_t groups = 1;         ///< micro-batches of all replicas
};

/// Unit number i of a micro-batch is dropped if word i of its stream is below `limit`, as on a CPU.
struct MaskCall {
  GroupKeys keys{};
  DrawPlace place{};
  std::uint64_t limit = 0;
  std::int64_t units = 0;  ///< of one micro-batch
  DataType type = DataType::F32;
  void* mask = nullptr;  ///< [groups, units]: 1 where a unit is kept, else 0
};

void draw_mask(const MaskCall& call, Stream stream);

}  // namespace lockstep::gpu

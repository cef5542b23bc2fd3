#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace lockstep::gpu {

/// Where a tensor stands in the flat rows. What aligns the next one belongs to none: no kernel
/// that knows tensors reads or writes it.
struct Extent {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Neighbouring elements of one tensor: what one block of threads works on, and what is measured by
/// itself.
struct alignas(16) Chunk {
  std::int64_t first = 0;
  std::int32_t count = 0;
  std::int32_t tensor = 0;
};

/// As many elements as the blocks of the CPU's ordered sums have, so that sums have the same bits.
inline constexpr std::int64_t kChunk = 4096;

/// All tensors in their order, cut every `kChunk` elements from each one's first on.
///
/// Errors: `Options` for more chunks or tensors than a kernel counts.
std::vector<Chunk> cut_into_chunks(std::span<const Extent> tensors);

/// Chunks in a row, of a table that has more of them.
struct ChunkRange {
  std::int32_t first = 0;
  std::int32_t count = 0;
};

/// Which chunks of `cut_into_chunks` are whose.
std::vector<ChunkRange> chunk_ranges(std::span<const Extent> tensors);

/// A table in the GPU's memory.
struct Chunks {
  const Chunk* data = nullptr;
  std::int32_t count = 0;
};

}  // namespace lockstep::gpu

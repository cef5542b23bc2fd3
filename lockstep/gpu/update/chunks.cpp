#include "lockstep/gpu/update/chunks.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/comm/sharded_update.h"

namespace lockstep::gpu {
namespace {

static_assert(kChunk == comm::ShardedUpdate::kBlock);

std::int64_t num_chunks_of(const Extent& tensor) {
  return (tensor.count + kChunk - 1) / kChunk;
}

/// Kernels count both in 32 bits.
void check_numbers(std::span<const Extent> tensors) {
  std::int64_t chunks = 0;
  for (const auto& tensor : tensors) chunks += num_chunks_of(tensor);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  if (chunks <= kMost && std::ssize(tensors) <= kMost) return;
  throw Error(ErrorKind::Options,
              fmt::format("GPU: expected at most {} chunks of {} elements, found {} of {} tensors",
                          kMost, kChunk, chunks, tensors.size()));
}

}  // namespace

std::vector<Chunk> cut_into_chunks(std::span<const Extent> tensors) {
  check_numbers(tensors);
  std::vector<Chunk> chunks;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto [first, count] = tensors[i];
    for (std::int64_t done = 0; done < count; done += kChunk) {
      chunks.push_back({.first = first + done,
                        .count = static_cast<std::int32_t>(std::min(kChunk, count - done)),
                        .tensor = static_cast<std::int32_t>(i)});
    }
  }
  return chunks;
}

std::vector<ChunkRange> chunk_ranges(std::span<const Extent> tensors) {
  check_numbers(tensors);
  std::vector<ChunkRange> ranges;
  std::int32_t first = 0;
  for (const auto& tensor : tensors) {
    const auto count = static_cast<std::int32_t>(num_chunks_of(tensor));
    ranges.push_back({first, count});
    first += count;
  }
  return ranges;
}

}  // namespace lockstep::gpu

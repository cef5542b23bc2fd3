#include "lockstep/gpu/check.h"
#include "lockstep/gpu/update/changed_tensors.h"

namespace lockstep::gpu {
namespace {

constexpr unsigned kThreads = 256;

/// Whoever finds a difference writes the same number, so it does not matter who was last.
__global__ void compare(const float* before, const float* now, std::int64_t first_of_now,
                        const Chunk* chunks, float* changed) {
  const auto chunk = chunks[blockIdx.x];
  bool differs = false;
  for (auto i = static_cast<std::int64_t>(threadIdx.x); i < chunk.count; i += kThreads) {
    const auto element = chunk.first + i;
    differs |= __float_as_uint(before[element]) != __float_as_uint(now[element - first_of_now]);
  }
  if (differs) changed[chunk.tensor] = 1;
}

}  // namespace

void mark_changed(const float* before, const float* now, std::int64_t first_of_now, Chunks chunks,
                  float* changed, Stream stream) {
  if (chunks.count == 0) return;
  compare<<<static_cast<unsigned>(chunks.count), kThreads, 0, stream>>>(before, now, first_of_now,
                                                                        chunks.data, changed);
  check_launch("mark_changed");
}

}  // namespace lockstep::gpu

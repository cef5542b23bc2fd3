#include "lockstep/gpu/check.h"
#include "lockstep/gpu/update/element_rules.cuh"
#include "lockstep/gpu/update/rows.cuh"
#include "lockstep/gpu/update/update.h"

// Sums of squares as `optimizer/update_kernels.cpp` has them: 16 sums side by side for each chunk,
// of which each takes every 16th element, then halves of them are added. So 16 threads work on a
// chunk, and each adds up one sum; a square of an f32 is exact in double.

namespace lockstep::gpu {
namespace {

constexpr int kLanes = 16;
constexpr int kMeasureThreads = 128;
constexpr int kChunksPerBlock = kMeasureThreads / kLanes;
constexpr unsigned kWholeWarp = 0xffffffffU;

unsigned num_blocks_for(Chunks chunks) {
  return static_cast<unsigned>((chunks.count + kChunksPerBlock - 1) / kChunksPerBlock);
}

/// The chunk that a thread works on. Threads that have none get an empty one: they are needed where
/// lanes are added.
struct LaneOfChunk {
  std::int64_t index;
  int lane;
  Chunk chunk;

  explicit __device__ LaneOfChunk(Chunks chunks)
      : index(std::int64_t{blockIdx.x} * kChunksPerBlock + threadIdx.x / kLanes),
        lane(static_cast<int>(threadIdx.x % kLanes)),
        chunk(index < chunks.count ? chunks.data[index] : Chunk()) {}
};

/// Stays where it stands. The compiler would move a plain load to where its number is needed,
/// behind the division of the one before, and each would be waited for.
__device__ float load_early(const float* from) {
  float value;
  asm volatile("ld.global.f32 %0, [%1];" : "=f"(value) : "l"(from));
  return value;
}

/// Hands what `load` finds to `take`, element by element of a lane, with several loads under way.
template <int ahead, typename Load, typename Take>
__device__ void for_lane(const LaneOfChunk& mine, const Load& load, const Take& take) {
  const auto first = mine.chunk.first;
  int i = mine.lane;
  for (; i + (ahead - 1) * kLanes < mine.chunk.count; i += ahead * kLanes) {
    decltype(load(first)) found[ahead];
#pragma unroll
    for (int k = 0; k < ahead; ++k) found[k] = load(first + i + k * kLanes);
#pragma unroll
    for (int k = 0; k < ahead; ++k) take(found[k]);
  }
  for (; i < mine.chunk.count; i += kLanes) take(load(first + i));
}

__device__ double square(float value) {
  return static_cast<double>(value) * static_cast<double>(value);
}

/// Of all lanes of a chunk, on the first of them.
__device__ double total(double sum) {
  for (int left = kLanes / 2; left > 0; left /= 2) {
    sum += __shfl_down_sync(kWholeWarp, sum, left, kLanes);
  }
  return sum;
}

__device__ int total(int count) {
  for (int left = kLanes / 2; left > 0; left /= 2) {
    count += __shfl_down_sync(kWholeWarp, count, left, kLanes);
  }
  return count;
}

__global__ void __launch_bounds__(kMeasureThreads)
    measure_chunks(const float* sum, float divisor, Chunks chunks, ChunkMeasure* measured) {
  const LaneOfChunk mine(chunks);
  const Divisor divide(divisor);
  double squares = 0;
  int not_finite = 0;
  for_lane<16>(
      mine, [&](std::int64_t i) { return load_early(sum + i); },
      [&](float value) {
        const float gradient = divide(value);
        squares += square(gradient);
        not_finite += isfinite(gradient) ? 0 : 1;
      });
  squares = total(squares);
  not_finite = total(not_finite);
  if (mine.lane == 0 && mine.index < chunks.count) measured[mine.index] = {squares, not_finite};
}

struct Loaded {
  float sum;
  Element now;
};

__global__ void __launch_bounds__(kMeasureThreads)
    measure_trust_of_chunks(const __grid_constant__ UpdateCall call,
                            optimizer::TrustSums* measured) {
  LaneOfChunk mine(call.chunks);
  const auto control = *call.control;
  const auto tensor = mine.chunk.tensor;
  const bool is_measured = mine.index < call.chunks.count && tensor < call.num_parameters &&
                           is_updated(call, control, tensor);
  if (!is_measured) mine.chunk = {};
  const auto& rows = call.rows;
  const LambRule rule(call.rules, coefficients_of(call, control, mine.chunk.tensor));
  const Divisor divide(call.rules.divisor);
  double weights = 0;
  double direction = 0;
  for_lane<4>(
      mine,
      [&](std::int64_t i) {
        return Loaded{load_early(rows.sum + i),
                      {load_early(rows.weights + i), load_early(rows.first + i),
                       load_early(rows.second + i)}};
      },
      [&](const Loaded& found) {
        weights += square(found.now.weight);
        direction += square(rule.direction(divide(found.sum) * control.clip, found.now));
      });
  weights = total(weights);
  direction = total(direction);
  if (mine.lane == 0 && is_measured) measured[mine.index] = {weights, direction};
}

/// One warp for each parameter: it fetches sums of many chunks at a time, and all its threads add
/// them in order.
__global__ void find_trust_of_parameters(const optimizer::TrustSums* measured,
                                         const ChunkRange* chunks, double* trust) {
  const auto range = chunks[blockIdx.x];
  const int lane = static_cast<int>(threadIdx.x);
  double weights = 0;
  double direction = 0;
  for (int done = 0; done < range.count; done += warpSize) {
    // Sums of squares are not negative, so that a zero more changes none.
    const bool is_there = done + lane < range.count;
    const auto mine = is_there ? measured[range.first + done + lane] : optimizer::TrustSums();
#pragma unroll
    for (int k = 0; k < 32; ++k) {
      weights += __shfl_sync(kWholeWarp, mine.weights, k);
      direction += __shfl_sync(kWholeWarp, mine.direction, k);
    }
  }
  if (lane == 0) trust[blockIdx.x] = optimizer::StepRules::trust_ratio(weights, direction);
}

}  // namespace

void measure(const float* sum, float divisor, Chunks parameters, ChunkMeasure* measured,
             Stream stream) {
  if (parameters.count == 0) return;
  measure_chunks<<<num_blocks_for(parameters), kMeasureThreads, 0, stream>>>(sum, divisor,
                                                                             parameters, measured);
  check_launch("measure");
}

void measure_trust(const UpdateCall& call, optimizer::TrustSums* measured, Stream stream) {
  if (call.chunks.count == 0) return;
  measure_trust_of_chunks<<<num_blocks_for(call.chunks), kMeasureThreads, 0, stream>>>(call,
                                                                                       measured);
  check_launch("measure_trust");
}

void find_trust(const optimizer::TrustSums* measured, const ChunkRange* chunks,
                std::int32_t num_parameters, double* trust, Stream stream) {
  if (num_parameters == 0) return;
  find_trust_of_parameters<<<static_cast<unsigned>(num_parameters), 32, 0, stream>>>(measured,
                                                                                     chunks, trust);
  check_launch("find_trust");
}

}  // namespace lockstep::gpu

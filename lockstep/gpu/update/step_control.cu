#include "lockstep/gpu/check.h"
#include "lockstep/gpu/update/step_control.h"

// Each kernel is one block, because it makes one decision for the whole step.

namespace lockstep::gpu {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 1024;

/// Runs on all warps except the first, which adds meanwhile.
__device__ void fetch_squares(const ChunkMeasure* measured, int begin, int count, double* tile) {
  const int size = min(kTile, count - begin);
  const int helper = static_cast<int>(threadIdx.x) - warpSize;
  if (helper < 0) return;
  for (int i = helper; i < size; i += kThreads - warpSize) tile[i] = measured[begin + i].squares;
}

/// Adds in the order of the CPU: one thread adds, while the others load the next numbers. Only the
/// first thread has the result.
__device__ double sum_in_order(const ChunkMeasure* measured, int count) {
  __shared__ double tiles[2][kTile];
  double total = 0;
  fetch_squares(measured, 0, count, tiles[0]);
  for (int begin = 0, current = 0; begin < count; begin += kTile, current = 1 - current) {
    __syncthreads();  // this tile is loaded, and the other one is free
    fetch_squares(measured, begin + kTile, count, tiles[1 - current]);
    if (threadIdx.x != 0) continue;
    const int size = min(kTile, count - begin);
#pragma unroll 16
    for (int i = 0; i < size; ++i) total += tiles[current][i];
  }
  return total;
}

__device__ bool finds_not_finite(const DecideCall& call) {
  bool found = false;
  for (int i = threadIdx.x; i < call.num_losses; i += kThreads) {
    if (!isfinite(call.losses[i])) found = true;
  }
  for (int i = threadIdx.x; i < call.num_chunks; i += kThreads) {
    if (call.measured[i].not_finite > 0) found = true;
  }
  return found;
}

__global__ void __launch_bounds__(kThreads)
    decide_step(const __grid_constant__ DecideCall call, StepControl* control) {
  const bool found = call.rules.has_loss_scaling && finds_not_finite(call);
  const bool is_finite = __syncthreads_or(found ? 1 : 0) == 0;
  const double squares = call.rules.clips() ? sum_in_order(call.measured, call.num_chunks) : 0;
  if (threadIdx.x != 0) return;
  control->skipped = call.rules.skips(is_finite) ? 1 : 0;
  control->clip = call.rules.clip_factor(squares);
}

__global__ void __launch_bounds__(kThreads)
    finish(const __grid_constant__ EndStepCall call, StepControl* control) {
  auto now = *control;
  for (int i = threadIdx.x; i < call.num_parameters; i += kThreads) {
    if (now.skipped == 0 && call.changed[i] != 0) ++call.counts[i];
  }
  __syncthreads();  // all threads have read the control
  if (threadIdx.x != 0) return;
  if (call.records != nullptr) call.records[now.step] = now;
  ++now.step;
  if (now.skipped == 0) ++now.updates;
  const auto scale = call.rules.next_scale({now.loss_scale, now.good_steps}, now.skipped != 0);
  now.loss_scale = static_cast<float>(scale.value);
  now.good_steps = scale.good_steps;
  *control = now;
}

__global__ void begin(StepControl* control) {
  control->step = 0;
  control->updates = 0;
}

}  // namespace

void begin_launch(StepControl* control, Stream stream) {
  begin<<<1, 1, 0, stream>>>(control);
  check_launch("begin_launch");
}

void decide(const DecideCall& call, StepControl* control, Stream stream) {
  decide_step<<<1, kThreads, 0, stream>>>(call, control);
  check_launch("decide");
}

void end_step(const EndStepCall& call, StepControl* control, Stream stream) {
  finish<<<1, kThreads, 0, stream>>>(call, control);
  check_launch("end_step");
}

}  // namespace lockstep::gpu

#pragma once

#include <cstdint>

#include "lockstep/gpu/stream.h"

namespace lockstep::gpu {

// What is decided for a whole step, by the GPU itself: whether it changes anything, by how much
// gradients are clipped, and the loss scale. As in `train::WeightUpdate`, to the bit.

/// What one step is told, in the GPU's memory. An iteration is as many steps as are launched at
/// once; numbers of updates differ from numbers of steps where loss scaling skips some.
struct StepControl {
  std::int64_t good_steps = 0;  ///< since the loss scale last fell
  std::int32_t step = 0;        ///< within the iteration
  std::int32_t updates = 0;     ///< of them that were made so far
  std::int32_t skipped = 0;     ///< 1: this step changes no weight
  float clip = 1;               ///< what gradients are multiplied with
  float loss_scale = 1;         ///< a power of two
};

/// What was found in the gradients of one chunk.
struct ChunkMeasure {
  double squares = 0;  ///< their sum
  std::int64_t not_finite = 0;
};

/// Step 0 of the next iteration; the loss scale goes on.
void begin_iteration(StepControl* control, Stream stream);

struct DecideCall {
  const ChunkMeasure* measured = nullptr;  ///< of all chunks of parameters, in order
  std::int32_t num_chunks = 0;
  const float* losses = nullptr;  ///< of the replicas
  std::int32_t num_losses = 0;
  double clip_norm = 0;           ///< 0: nothing is clipped
  bool has_loss_scaling = false;  ///< a step with a gradient or loss that is not finite is skipped
};

/// Sets `skipped` and `clip` for this step; where neither can happen, it need not be called.
void decide(const DecideCall& call, StepControl* control, Stream stream);

struct LossScaling {
  bool is_used = false;
  std::int64_t steps_to_grow = 0;  ///< without an overflow
  float largest = 0;
};

struct FinishCall {
  const float* changed = nullptr;  ///< by parameter; 0: it had no gradient
  std::int64_t* counts = nullptr;  ///< by parameter: how often it was updated
  std::int32_t num_parameters = 0;
  LossScaling loss_scaling{};
  StepControl* records = nullptr;  ///< by step of the iteration: what it was told; may be none
};

/// Counts what was updated, and goes on to the next step with its loss scale.
void finish_step(const FinishCall& call, StepControl* control, Stream stream);

}  // namespace lockstep::gpu

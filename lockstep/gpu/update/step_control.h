#pragma once

#include <cstdint>

#include "lockstep/gpu/stream.h"
#include "lockstep/optimizer/step_rules.h"

namespace lockstep::gpu {

// Kernels that apply `optimizer::StepRules` to one step: whether the step changes weights, how much
// gradients are clipped, and the loss scale.

/// The decisions of one step, in GPU memory. An iteration has as many steps as one launch. The
/// number of updates is less than the number of steps if loss scaling skips some.
struct StepControl {
  std::int64_t good_steps = 0;  ///< since the loss scale last fell
  std::int32_t step = 0;        ///< within the iteration
  std::int32_t updates = 0;     ///< steps of the iteration so far that changed weights
  std::int32_t skipped = 0;     ///< 1: this step changes no weight
  float clip = 1;               ///< the factor of gradients
  float loss_scale = 1;         ///< a power of two
};

/// Measurement of the gradients of one chunk.
struct ChunkMeasure {
  double squares = 0;           ///< sum of their squares
  std::int64_t not_finite = 0;  ///< how many are not finite
};

/// Sets the step to 0 and keeps the loss scale.
void begin_launch(StepControl* control, Stream stream);

struct DecideCall {
  const ChunkMeasure* measured = nullptr;  ///< of all chunks of parameters, in order
  std::int32_t num_chunks = 0;
  const float* losses = nullptr;  ///< of the replicas
  std::int32_t num_losses = 0;
  optimizer::StepRules rules{};
};

/// Sets `skipped` and `clip` of this step. Needed only if `rules.measures_gradients()`.
void decide(const DecideCall& call, StepControl* control, Stream stream);

struct EndStepCall {
  const float* changed = nullptr;  ///< by parameter; 0: it had no gradient
  std::int64_t* counts = nullptr;  ///< by parameter: number of updates
  std::int32_t num_parameters = 0;
  optimizer::StepRules rules{};
  StepControl* records = nullptr;  ///< by step of the iteration: a copy of its control; may be null
};

/// Counts the updates of this step, and sets the number and the loss scale of the next step.
void end_step(const EndStepCall& call, StepControl* control, Stream stream);

}  // namespace lockstep::gpu

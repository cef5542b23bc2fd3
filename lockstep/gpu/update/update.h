#pragma once

#include <cstdint>

#include "lockstep/base/data_type.h"
#include "lockstep/gpu/stream.h"
#include "lockstep/gpu/update/chunks.h"
#include "lockstep/gpu/update/coefficient_table.h"
#include "lockstep/gpu/update/step_control.h"
#include "lockstep/optimizer/optimizer.h"
#include "lockstep/optimizer/update_kernels.h"

namespace lockstep::gpu {

// The sum of all leaves becomes new weights, in flat rows of a GPU's memory. The bits are those of
// `optimizer/update_kernels.h`, but for what a NaN carries beside being none: nothing is
// contracted, divisions and roots round as IEEE says, sums go in the same order.
//
// No call waits for the GPU, and all that changes from step to step is read from its memory, so
// steps can be captured once and launched again. The order of a step:
//
//     gather, add_rows                    leaf.h, as leaf_steps.h says
//     measure, decide                     where gradients are clipped or losses scaled
//     measure_trust, find_trust           LAMB
//     update, end_step

/// What is the same in all steps of a training.
struct UpdateConstants {
  OptimizerKind kind = OptimizerKind::Sgd;
  int num_states = 0;
  bool nesterov = false;
  float momentum = 0;
  float beta1 = 0;
  float rest1 = 0;  ///< 1 - beta1
  float beta2 = 0;
  float rest2 = 0;
  float epsilon = 0;
  float average_decay = 0;
  float average_rest = 0;  ///< 1 - average_decay
  float divisor = 1;       ///< of the summed gradient
  float replicas = 1;      ///< divisor of the summed buffers
};

/// Errors: `Options` for an optimizer of the user's own.
UpdateConstants update_constants(const Optimizer& optimizer, std::int64_t divisor, int replicas);

/// Flat rows, each with a number for each parameter's element; weights and sum go on with buffers.
/// All but the sum are updated in place.
struct UpdateRows {
  const float* sum = nullptr;
  float* weights = nullptr;
  float* first = nullptr;  ///< what the optimizer keeps, as far as it keeps any
  float* second = nullptr;
  float* average = nullptr;             ///< of weights; none: not kept
  void* half = nullptr;                 ///< the weights, rounded; none: not kept
  DataType half_type = DataType::BF16;  ///< F16 or BF16
};

struct UpdateCall {
  UpdateConstants rules{};
  UpdateRows rows{};
  Chunks chunks{};                             ///< of parameters, then of buffers
  std::int32_t num_parameters = 0;             ///< tensors from here on are buffers
  const float* changed = nullptr;              ///< by tensor; 0: it stays as it is
  const Coefficients* coefficients = nullptr;  ///< of the iteration
  Skips skips = Skips::Never;                  ///< that the table was made for
  const double* trust = nullptr;               ///< LAMB: by parameter
  const StepControl* control = nullptr;
};

/// Measures the sum, divided, of each chunk.
void measure(const float* sum, float divisor, Chunks parameters, ChunkMeasure* measured,
             Stream stream);

/// LAMB: what of each chunk goes into its parameter's ratio. Where nothing is updated, nothing is
/// written.
void measure_trust(const UpdateCall& call, optimizer::TrustSums* measured, Stream stream);
/// LAMB: the ratio of each parameter; `chunks` says which are whose.
void find_trust(const optimizer::TrustSums* measured, const ChunkRange* chunks,
                std::int32_t num_parameters, double* trust, Stream stream);

/// Writes the next weights, states, averages and rounded weights of parameters, and the means of
/// buffers; nothing in a skipped step.
void update(const UpdateCall& call, Stream stream);

}  // namespace lockstep::gpu

#pragma once

#include "lockstep/gpu/layers/batch_norm.h"

namespace lockstep::gpu {

// What is left to do over groups when each has its own numbers, f32 [groups, channels].

/// `variance` is that of the rows as they are; running ones move towards the unbiased one.
void move_running(const NormShape& shape, const NormRunning& running, const float* mean,
                  const float* variance, Stream stream);

/// Adds what each group has to the gradients of the parameters, in the order of groups.
void add_groups(const NormShape& shape, const float* weight_sums, const float* bias_sums,
                float* weight_gradient, float* bias_gradient, Stream stream);

}  // namespace lockstep::gpu

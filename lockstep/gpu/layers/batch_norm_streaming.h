#pragma once

#include "lockstep/gpu/layers/batch_norm.h"

namespace lockstep::gpu {

// Passes along `NormPathKind::Streaming`, and evaluation. Arrays are f32 [groups, channels]; with
// wide packets, memory has to be aligned to 16 bytes.

enum class Packets : std::uint8_t { Wide, Single };

/// Numbers that `partials` has to have room for. The same for both passes.
std::int64_t streaming_partials(const NormShape& shape);

template <typename T>
void streaming_forward(const NormForward& call, Packets packets, float* variance, float* partials,
                       Stream stream);
template <typename T>
void streaming_backward(const NormBackward& call, Packets packets, float* weight_sums,
                        float* bias_sums, float* partials, Stream stream);
template <typename T>
void streaming_evaluate(const NormEvaluation& call, Packets packets, Stream stream);

}  // namespace lockstep::gpu

#pragma once

#include "lockstep/gpu/layers/batch_norm_paths.h"

namespace lockstep::gpu {

/// A pass along `NormPathKind::Resident`; `variance`, `weight_sums` and `bias_sums` are f32
/// [groups, channels].
///
/// A thread writes results only where it has read all inputs itself, so results may lie where
/// inputs of the same elements were.
template <typename T>
void resident_forward(const NormForward& call, const NormPath& path, float* variance,
                      Stream stream);
template <typename T>
void resident_backward(const NormBackward& call, const NormPath& path, float* weight_sums,
                       float* bias_sums, Stream stream);

}  // namespace lockstep::gpu

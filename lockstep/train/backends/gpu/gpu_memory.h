#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/train/api/memory_use.h"
#include "lockstep/train/api/options.h"
#include "lockstep/train/backends/gpu/gpu_training.h"

namespace lockstep::train {

/// What it is needed for.
struct GpuDemand {
  const WeightLayout& weights;
  const StateShape& shape;
  DataType compute = DataType::F32;
  GpuInputShape input{};
  GpuSamples samples{};
  std::int64_t kept_bytes = 0;  ///< of activations, by a micro-batch, in f32
};

/// Where a pass takes so many micro-batches.
GpuMemory gpu_memory(const GpuDemand& demand, std::int64_t groups);

/// How many micro-batches may be computed at once, at the least 1, with so much memory.
std::int64_t groups_that_fit(const GpuDemand& demand, std::int64_t bytes);

/// What the model computes in.
inline DataType compute_type(const Options& options) {
  return gradient_type(options.precision(), options.half());
}

}  // namespace lockstep::train

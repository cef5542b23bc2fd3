#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/topology/placement.h"
#include "lockstep/train/api/options.h"
#include "lockstep/train/api/statistics.h"
#include "lockstep/train/backends/batch_tensors.h"
#include "lockstep/train/state/state_layout.h"

namespace lockstep::train {

/// Micro-batches that a GPU computes as one batch. Those of one replica follow each other.
struct GpuPass {
  int first_replica = 0;
  int replicas = 1;
  std::int64_t first_micro_batch = 0;  ///< 0 unless the pass has a part of one replica's
  std::int64_t micro_batches = 1;      ///< of each replica

  std::int64_t groups() const noexcept { return replicas * micro_batches; }
  bool operator==(const GpuPass&) const = default;
};

/// The samples of the steps that are on a GPU at once.
struct GpuInputShape {
  topology::ReplicaRange replicas{};  ///< of this instance
  std::int64_t micro_batches = 1;     ///< G
  std::int64_t batch_size = 1;        ///< B
  std::int64_t steps = 1;

  std::int64_t samples_per_step() const noexcept {
    return replicas.count * micro_batches * batch_size;
  }
};

/// The samples of a loader, or of a dataset that is stored on the GPU.
struct GpuSamples {
  std::vector<data::Field> fields{};
  std::optional<PictureFormat> picture{};  ///< the format of the image field
  std::optional<StoredSet> stored{};       ///< the loader provides indices into it
};

/// The passes of a step, in order. A pass has at most `most_groups` micro-batches.
std::vector<GpuPass> choose_passes(const GpuInputShape& input, Fuse fuse, bool is_deterministic,
                                   std::int64_t most_groups);

/// Number of leaves of these passes.
int count_leaves(std::span<const GpuPass> passes);

/// A training for which the memory of a GPU is estimated.
struct GpuDemand {
  const WeightLayout& weights;
  const StateShape& shape;
  DataType compute = DataType::F32;
  GpuInputShape input{};
  GpuSamples samples{};
  std::int64_t kept_bytes = 0;  ///< activations of a micro-batch in f32
};

/// Memory that is needed if a pass has `groups` micro-batches.
GpuMemory gpu_memory(const GpuDemand& demand, std::int64_t groups);

/// The largest number of micro-batches of a pass, at least 1, that fits into this memory.
std::int64_t groups_that_fit(const GpuDemand& demand, std::int64_t bytes);

/// The type in which the model computes.
inline DataType compute_type(const Options& options) {
  return gradient_type(options.precision(), options.half());
}

}  // namespace lockstep::train

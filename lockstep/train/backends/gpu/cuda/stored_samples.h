#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

#include "lockstep/data/loader/batch.h"
#include "lockstep/gpu/pictures/device_set.h"
#include "lockstep/gpu/pictures/picture_maker.h"
#include "lockstep/gpu/pictures/picture_plan.h"
#include "lockstep/train/api/task.h"
#include "lockstep/train/backends/batch_tensors.h"
#include "lockstep/train/backends/gpu/cuda/device_table.h"
#include "lockstep/train/backends/gpu/gpu_training.h"

namespace lockstep::train {

/// Makes the samples of steps on a GPU, from a set that is stored there. The host makes the random
/// decisions for each image, and sends only these.
///
/// As `GpuInput`, it sends the decisions for the next launch while the last one runs. One thread at
/// a time.
class StoredSamples {
 public:
  /// Copies the set to the current GPU. Waits.
  /// Errors: `Options` if the set does not fit, or if its samples have different sizes.
  StoredSamples(const StoredSet& stored, const GpuInputShape& shape, int device);

  /// Decides about the samples of a batch; the first one is sample `first` of the step. The
  /// decisions of the last launch must have arrived.
  void send(std::int64_t step, std::int64_t first, const data::Batch& batch, gpu::Stream copies);
  void hand_over(gpu::Stream stream) const;

  /// The fields of all samples of a step, as a loader would fill them. `numbers` are the indices of
  /// the samples.
  Fields make(std::int64_t step, const at::Tensor& numbers) const;

 private:
  /// The data for images, besides the set.
  struct Pictures {
    Pictures(const StoredSet& stored, std::size_t field, const GpuInputShape& shape);

    std::size_t field;
    gpu::PicturePlanner planner;
    gpu::PictureMaker maker;
    std::size_t passes_per_step;
    DeviceTable<gpu::PicturePass> arriving;  ///< by step, then pass, then sample
    gpu::DeviceMemory arrived;
  };
  at::Tensor make_pictures(std::int64_t step, const at::TensorOptions& options) const;
  at::Tensor gather(std::size_t field, const at::Tensor& numbers) const;

  std::uint64_t seed_;
  std::int64_t samples_;  ///< of a step
  gpu::DeviceSet set_;
  std::optional<Pictures> pictures_;
};

}  // namespace lockstep::train

#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <optional>
#include <string>
#include <vector>

#include "lockstep/data/loader/batch.h"
#include "lockstep/train/api/fields.h"
#include "lockstep/train/backends/cuda/stored_samples.h"
#include "lockstep/train/backends/gpu/gpu_training.h"

namespace lockstep::train {

/// The samples of one launch, on their way from the loader to a GPU.
///
///     taken     batch by batch, copied by a stream of its own while the GPU computes
///     handed over   what was taken becomes what steps see; the next can be taken
///
/// Batches are copied from where the loader has put them, and kept until that is done. Of samples
/// that are stored on the GPU, numbers are copied, and what is decided about them. One thread at a
/// time.
class GpuInput {
 public:
  GpuInput(const GpuSamples& samples, const GpuInputShape& shape, const at::Device& device);

  /// Of a step of the next launch, by the replica and micro-batch that it is for.
  void take(std::int64_t step, data::Batch batch);
  /// Lets go of the batches, when they are there.
  void release();
  /// What libtorch's current stream is given from here on sees what was taken.
  void hand_over();
  /// Fields as a loader makes them, of all micro-batches of a step: those of a replica follow each
  /// other.
  Fields step(std::int64_t step) const;

 private:
  struct Column {
    std::string name;
    std::size_t field;
    bool is_lengths;
    std::size_t bytes;    ///< of one sample
    at::Tensor arriving;  ///< [steps, samples, …]
    at::Tensor arrived;
  };
  void add_columns(const std::vector<data::Field>& fields);
  void add_column(const data::Field& field, std::size_t position, bool is_lengths);

  GpuInputShape shape_;
  at::Device device_;
  std::vector<Column> columns_;
  std::optional<StoredSamples> stored_;
  std::vector<data::Batch> held_;
  c10::cuda::CUDAStream copies_;
  at::cuda::CUDAEvent copied_;
  at::cuda::CUDAEvent handed_over_;
};

}  // namespace lockstep::train

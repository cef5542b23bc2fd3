#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lockstep/data/loader/batch.h"
#include "lockstep/gpu/memory.h"
#include "lockstep/gpu/pictures/pixel_converter.h"
#include "lockstep/train/api/task.h"
#include "lockstep/train/backends/gpu/cuda/gpu_state.h"
#include "lockstep/train/backends/gpu/cuda/stored_samples.h"
#include "lockstep/train/backends/gpu/gpu_training.h"

namespace lockstep::train {

/// Makes the fields of a model from the fields of a loader that are on the GPU. Images become
/// [N, channels, height, width] in the type of the model, channels last in memory. 8-bit images are
/// normalized.
class GpuFields {
 public:
  GpuFields(const GpuSamples& samples, DataType compute);

  Fields operator()(const Fields& loaded) const;

 private:
  at::Tensor picture(const at::Tensor& values) const;
  at::Tensor converted(const at::Tensor& pixels) const;

  std::optional<PictureFormat> format_;
  DataType compute_;
  std::optional<gpu::PixelConverter> converter_;
};

/// Copies the samples of a launch from the loader to a GPU.
///
///     take        copies one batch on a separate stream, while the GPU computes
///     hand_over   gives all copied samples to the next launch; then more can be taken
///
/// A batch is kept until it is copied. For samples that are stored on the GPU, only indices and
/// random decisions are copied. One thread at a time.
class GpuInput {
 public:
  GpuInput(const GpuSamples& samples, const GpuInputShape& shape, const at::Device& device);

  /// Takes a batch of a step of the next launch.
  void take(std::int64_t step, data::Batch batch);
  /// Waits until the batches are copied, and releases them.
  void release();
  /// Later work of libtorch's current stream reads the samples that were taken.
  void hand_over();
  /// The fields of all micro-batches of a step, as a loader makes them, ordered by replica.
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

/// Downloads the state of a GPU to the host while the next steps run. The state is first copied to
/// other memory of the GPU, which is fast. A separate stream downloads this copy.
///
/// One thread at a time.
class GpuDownload {
 public:
  /// `home` is the host memory that states are written to.
  GpuDownload(const GpuState& state, std::span<std::byte> home);

  /// Begins to download the state as it is after all work of libtorch's current stream. The
  /// previous download must have arrived.
  void begin(std::byte* to);
  bool has_arrived() const { return arrived_.query(); }
  void wait() const { arrived_.synchronize(); }

 private:
  const GpuState& state_;
  gpu::PinnedRange home_;
  at::Tensor aside_;  ///< allocated by the first download
  c10::cuda::CUDAStream copies_;
  at::cuda::CUDAEvent set_aside_;
  at::cuda::CUDAEvent arrived_;
};

}  // namespace lockstep::train

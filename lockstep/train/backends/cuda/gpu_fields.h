#pragma once

#include <optional>

#include "lockstep/gpu/pictures/pixel_converter.h"
#include "lockstep/train/api/fields.h"
#include "lockstep/train/backends/gpu/gpu_training.h"

namespace lockstep::train {

/// Makes of fields that a loader filled, and that are on a GPU now, those that a model takes:
/// pictures become [N, channels, height, width] in what the model computes in, channels last in
/// memory, and 8-bit ones are normalized.
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

}  // namespace lockstep::train

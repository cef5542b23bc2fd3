#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/data/field.h"
#include "lockstep/data/image.h"
#include "lockstep/data/sampling/draws.h"
#include "lockstep/data/transform/pipeline.h"
#include "lockstep/data/transform/scratch.h"

namespace lockstep::data {

namespace kernels {
struct Conversion;
}

/// A pipeline, made ready for the pictures of a field.
///
/// Crops, padding and flips only move a window over the picture; a resize reads through it and
/// computes what the steps after it leave visible; the last pass converts and writes rows, some
/// at a time. So a pipeline without a resize is one pass from the picture to the output.
///
/// f32 output has the bits of torchvision's ToTensor and Normalize, a resize those of Pillow; the
/// same on every machine. `apply` may be called by several threads at once, each with a `Scratch`
/// of its own.
///
/// Errors: `Options` from the constructor where the pipeline cannot be meant for these pictures,
/// and from `apply` for a picture that is not of the field.
class LOCKSTEP_API Transform {
 public:
  Transform(const Pipeline& pipeline, const Field& image);

  /// What `apply` writes: its type and shape, under the name of the field of pictures.
  Field output_field() const;

  const Pipeline& pipeline() const noexcept { return pipeline_; }

  /// The normalization that remains to be done with u8 output: by the device, on x/255.
  const std::optional<Normalize>& left_to_device() const noexcept { return left_to_device_; }

  /// Writes `bytes_of(output_field())` bytes. `out` may have any alignment.
  void apply(const ImageView& in, const Draws& draws, Scratch& scratch, std::byte* out) const;

 private:
  void check(const ImageView& in) const;

  Pipeline pipeline_;
  Field image_;
  ImageSize output_size_;
  std::optional<Normalize> left_to_device_;
  std::shared_ptr<const kernels::Conversion> conversion_;
  std::vector<std::uint8_t> erased_;  ///< what an erased pixel has, with u8 output
};

}  // namespace lockstep::data

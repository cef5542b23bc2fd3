#pragma once

#include "lockstep/data/image.h"
#include "lockstep/data/transform/scratch.h"
#include "lockstep/data/transform/window.h"

namespace lockstep::data {

/// A resize that waits until it is known which part of its result is needed.
struct PendingResize {
  Window source;
  ImageSize size;
};

/// Computes the part `needed` of the resized picture, rows without gaps: at `out` where it is
/// given, else in the scratch memory for `use`, which must not hold the picture.
ImageView resize(const ImageView& image, const PendingResize& resize, const Box& needed,
                 Scratch& scratch, Scratch::Use use, std::uint8_t* out = nullptr);

}  // namespace lockstep::data

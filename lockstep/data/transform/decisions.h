#pragma once

#include <array>
#include <cstdint>

#include "lockstep/data/image.h"
#include "lockstep/data/sampling/draws.h"
#include "lockstep/data/transform/pipeline.h"
#include "lockstep/data/transform/window.h"

namespace lockstep::data {

/// What one step does to one picture.
struct StepDecision {
  bool applies = true;  ///< a flip or an erasing that was not drawn does not
  Box box;              ///< what a crop keeps, or an erasing erases, of the picture before the step
  ImageSize size;       ///< of the picture after the step
  bool operator==(const StepDecision&) const = default;
};

/// One for each step of the pipeline; those after its last step are as constructed.
using Decisions = std::array<StepDecision, kMostSteps>;

/// Makes every random decision about one picture, apart from its pixels: a function of its
/// arguments alone, so that whoever works on the pixels, a processor or a GPU, does the same.
///
/// The i-th step draws at place i. What each draws, by the number of the draw:
///   random-crop              0 row, 1 column
///   random-horizontal-flip   0 flips where unit < probability
///   random-resized-crop      4t.. area, ratio, row, column of try t, t < 10
///   random-erasing           0 erases where unit < probability; 4t + 4.. as above
///
/// The arithmetic is on integers and on doubles with + - * / and sqrt, which IEEE 754 rounds in one
/// way only; no contraction, no other function of libm: the same decisions on every machine.
///
/// The pipeline must have passed the checks of `Transform`.
Decisions decide(const Pipeline& pipeline, ImageSize size, const Draws& draws);

/// The size that `ResizeShorter` gives a picture.
ImageSize with_shorter_side(ImageSize size, std::int64_t shorter) noexcept;

}  // namespace lockstep::data

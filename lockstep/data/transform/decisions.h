#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/base/export.h"
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

/// Makes the random decision of one step about one picture, apart from its pixels: a function of
/// its arguments alone, so that whoever works on the pixels, a processor or a GPU, does the same.
/// `place` is the index of the step in its pipeline, `size` that of the picture before the step.
///
/// What a step draws at its place, by the number of the draw:
///   random-crop              0 row, 1 column
///   random-horizontal-flip   0 flips where unit < probability
///   random-resized-crop      4t.. area, ratio, row, column of try t, t < 10
///   random-erasing           0 erases where unit < probability; 4t + 4.. as above
///
/// The arithmetic is on integers and on doubles with + - * / and sqrt, which IEEE 754 rounds in one
/// way only; no contraction, no other function of libm: the same decisions on every machine.
///
/// The step must have passed the checks of `Transform`.
LOCKSTEP_PRIVATE_API StepDecision decide_step(const Step& step, std::size_t place, ImageSize size,
                                              const Draws& draws);

/// The decisions of all steps, one after the other.
std::vector<StepDecision> decide(const Pipeline& pipeline, ImageSize size, const Draws& draws);

/// The size that `ResizeShorter` gives a picture.
ImageSize with_shorter_side(ImageSize size, std::int64_t shorter) noexcept;

}  // namespace lockstep::data

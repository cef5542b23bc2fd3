#include "lockstep/data/transform/decisions.h"

#include <algorithm>
#include <cmath>

namespace lockstep::data {
namespace {

constexpr int kTries = 10;

struct AreaRange {
  double min_scale, max_scale, min_ratio, max_ratio;
};

/// `from` * (to / from)^u for u = word / 2^32: the power is a product of square roots of square
/// roots, one for each of the upper 24 bits of the word that is set.
double log_uniform(double from, double to, std::uint32_t word) {
  double root = to / from;
  double value = from;
  for (int bit = 31; bit >= 8; --bit) {
    root = std::sqrt(root);
    if (((word >> bit) & 1U) != 0) value *= root;
  }
  return value;
}

std::int64_t rounded(double positive) {
  return static_cast<std::int64_t>(positive + 0.5);
}

/// The width and height of a box that has a random share of a picture's area.
ImageSize draw_extents(const AreaRange& range, ImageSize size, std::uint16_t place, std::uint32_t n,
                       const Draws& draws) {
  const auto share =
      range.min_scale + (range.max_scale - range.min_scale) * double{draws.unit(place, n)};
  const auto area = static_cast<double>(size.height * size.width) * share;
  const auto ratio = log_uniform(range.min_ratio, range.max_ratio, draws.word(place, n + 1));
  return {rounded(std::sqrt(area / ratio)), rounded(std::sqrt(area * ratio))};
}

/// A box of this size within the picture; draws n for the row and n + 1 for the column.
Box place_box(ImageSize box, ImageSize size, std::uint16_t place, std::uint32_t n,
              const Draws& draws) {
  const auto rows = static_cast<std::uint32_t>(size.height - box.height + 1);
  const auto columns = static_cast<std::uint32_t>(size.width - box.width + 1);
  return {draws.below(place, n, rows), draws.below(place, n + 1, columns), box};
}

/// Half of the difference, ties to even as Python rounds.
std::int64_t center_offset(std::int64_t outer, std::int64_t inner) {
  const auto twice = outer - inner;
  const auto half = twice / 2;
  return twice % 2 != 0 && half % 2 != 0 ? half + 1 : half;
}

/// The largest box in the centre that keeps to the limits of the ratio.
Box fallback_box(const RandomResizedCrop& crop, ImageSize size) {
  const auto ratio = static_cast<double>(size.width) / static_cast<double>(size.height);
  auto box = size;
  if (ratio < crop.min_ratio) {
    box.height = rounded(static_cast<double>(size.width) / crop.min_ratio);
  } else if (ratio > crop.max_ratio) {
    box.width = rounded(static_cast<double>(size.height) * crop.max_ratio);
  }
  box.height = std::clamp<std::int64_t>(box.height, 1, size.height);
  box.width = std::clamp<std::int64_t>(box.width, 1, size.width);
  return {(size.height - box.height) / 2, (size.width - box.width) / 2, box};
}

/// The decision of one step about a picture of `size`.
struct Decide {
  ImageSize size;
  std::uint16_t place;
  const Draws& draws;

  StepDecision operator()(const RandomCrop& step) const {
    const ImageSize padded{size.height + 2 * step.padding, size.width + 2 * step.padding};
    auto box = place_box({step.height, step.width}, padded, place, 0, draws);
    box.top -= step.padding;
    box.left -= step.padding;
    return {.box = box, .size = box.size};
  }

  StepDecision operator()(const RandomHorizontalFlip& step) const {
    return {.applies = double{draws.unit(place, 0)} < step.probability, .box = {}, .size = size};
  }

  StepDecision operator()(const RandomResizedCrop& step) const {
    const AreaRange range{step.min_scale, step.max_scale, step.min_ratio, step.max_ratio};
    for (std::uint32_t n = 0; n < 4 * kTries; n += 4) {
      const auto box = draw_extents(range, size, place, n, draws);
      if (box.height < 1 || box.width < 1) continue;
      if (box.height > size.height || box.width > size.width) continue;
      return {.box = place_box(box, size, place, n + 2, draws), .size = {step.height, step.width}};
    }
    return {.box = fallback_box(step, size), .size = {step.height, step.width}};
  }

  StepDecision operator()(const Resize& step) const {
    return {.box = {}, .size = {step.height, step.width}};
  }

  StepDecision operator()(const ResizeShorter& step) const {
    return {.box = {}, .size = with_shorter_side(size, step.size)};
  }

  StepDecision operator()(const CenterCrop& step) const {
    const ImageSize box{step.height, step.width};
    return {
        .box = {center_offset(size.height, box.height), center_offset(size.width, box.width), box},
        .size = box};
  }

  StepDecision operator()(const Normalize&) const { return {.box = {}, .size = size}; }

  StepDecision operator()(const RandomErasing& step) const {
    if (double{draws.unit(place, 0)} >= step.probability) {
      return {.applies = false, .box = {}, .size = size};
    }
    const AreaRange range{step.min_scale, step.max_scale, step.min_ratio, step.max_ratio};
    for (std::uint32_t n = 4; n < 4 + 4 * kTries; n += 4) {
      // The ratio of an erasing is height to width, other than that of a crop.
      const auto extents = draw_extents(range, size, place, n, draws);
      const ImageSize box{extents.width, extents.height};
      if (box.height < 1 || box.width < 1) continue;
      if (box.height >= size.height || box.width >= size.width) continue;
      return {.box = place_box(box, size, place, n + 2, draws), .size = size};
    }
    return {.applies = false, .box = {}, .size = size};
  }
};

}  // namespace

ImageSize with_shorter_side(ImageSize size, std::int64_t shorter) noexcept {
  if (size.height <= size.width) return {shorter, shorter * size.width / size.height};
  return {shorter * size.height / size.width, shorter};
}

StepDecision decide_step(const Step& step, std::size_t place, ImageSize size, const Draws& draws) {
  return std::visit(Decide{size, static_cast<std::uint16_t>(place), draws}, step);
}

std::vector<StepDecision> decide(const Pipeline& pipeline, ImageSize size, const Draws& draws) {
  std::vector<StepDecision> decisions;
  for (const auto& step : pipeline.steps) {
    decisions.push_back(decide_step(step, decisions.size(), size, draws));
    size = decisions.back().size;
  }
  return decisions;
}

}  // namespace lockstep::data

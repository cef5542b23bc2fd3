#include "lockstep/data/transform/pipeline_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/data/transform/decisions.h"

namespace lockstep::data {
namespace {

/// Beyond it nothing is meant, and no product overflows.
constexpr std::int64_t kLargestExtent = 1 << 15;

[[noreturn]] void refuse(const std::string& expected, const std::string& found,
                         std::string hint = {}) {
  throw Error(ErrorKind::Options, fmt::format("transform: expected {}, found {}", expected, found),
              std::move(hint));
}

bool is_picture(const Field& field) {
  const bool has_kind = field.kind == FieldKind::AnySizeImage ||
                        (field.kind == FieldKind::Fixed && count_of(field) > 0);
  return has_kind && field.type == DataType::U8 && field.shape.size() == 3;
}

/// Walks over the steps with what is known about the size of a picture before each of them.
class Checker {
 public:
  explicit Checker(const Field& image)
      : channels_(static_cast<std::size_t>(image.shape[2])),
        is_fixed_(image.kind == FieldKind::Fixed),
        least_(is_fixed_ ? ImageSize{image.shape[0], image.shape[1]} : ImageSize{1, 1}) {}

  void check(std::size_t place, const Step& step) {
    where_ = fmt::format("step {} ({})", place, name_of(step));
    check_order(step);
    std::visit(*this, step);
  }

  ImageSize final_size() const {
    if (!is_fixed_) {
      refuse("a step that brings pictures of any size to one size", "none",
             "add a resize, a random-resized-crop, or a resize-shorter and a center-crop");
    }
    return least_;
  }

  void operator()(const RandomCrop& step) {
    check_extents(step.height, step.width);
    if (step.padding < 0 || step.padding > kLargestExtent) {
      fail(fmt::format("padding of 0 to {}", kLargestExtent), fmt::format("{}", step.padding));
    }
    check_fits(step.height, step.width, step.padding);
    become({step.height, step.width});
  }

  void operator()(const RandomHorizontalFlip& step) const { check_probability(step.probability); }

  void operator()(const RandomResizedCrop& step) {
    check_extents(step.height, step.width);
    check_area(step.min_scale, step.max_scale, step.min_ratio, step.max_ratio);
    become({step.height, step.width});
  }

  void operator()(const Resize& step) {
    check_extents(step.height, step.width);
    become({step.height, step.width});
  }

  void operator()(const ResizeShorter& step) {
    check_extents(step.size, step.size);
    least_ = is_fixed_ ? with_shorter_side(least_, step.size) : ImageSize{step.size, step.size};
  }

  void operator()(const CenterCrop& step) {
    check_extents(step.height, step.width);
    check_fits(step.height, step.width, 0);
    become({step.height, step.width});
  }

  void operator()(const Normalize& step) const {
    if (step.mean.size() != channels_ || step.deviation.size() != channels_) {
      fail(fmt::format("a mean and a deviation for each of {} channels", channels_),
           fmt::format("{} and {}", step.mean.size(), step.deviation.size()));
    }
    for (std::size_t c = 0; c < channels_; ++c) {
      const bool is_sound =
          std::isfinite(step.mean[c]) && std::isfinite(step.deviation[c]) && step.deviation[c] > 0;
      if (!is_sound) {
        fail("finite means and deviations above 0",
             fmt::format("{} and {} for channel {}", step.mean[c], step.deviation[c], c));
      }
    }
  }

  void operator()(const RandomErasing& step) const {
    check_probability(step.probability);
    check_area(step.min_scale, step.max_scale, step.min_ratio, step.max_ratio);
  }

 private:
  [[noreturn]] void fail(const std::string& expected, const std::string& found) const {
    throw Error(ErrorKind::Options,
                fmt::format("transform: {}: expected {}, found {}", where_, expected, found));
  }

  /// Pixels move first, then numbers change, then what was drawn is erased.
  void check_order(const Step& step) {
    const int phase = std::holds_alternative<RandomErasing>(step) ? 2
                      : std::holds_alternative<Normalize>(step)   ? 1
                                                                  : 0;
    if (phase < phase_ || (phase > 0 && phase == phase_)) {
      fail("steps that move pixels, then at most one normalize, then at most one random-erasing",
           fmt::format("it after {}", phase_ == 2 ? "random-erasing" : "normalize"));
    }
    phase_ = phase;
  }

  void check_extents(std::int64_t height, std::int64_t width) const {
    if (std::min(height, width) < 1 || std::max(height, width) > kLargestExtent) {
      fail(fmt::format("a height and width of 1 to {}", kLargestExtent),
           fmt::format("{}x{}", height, width));
    }
  }

  void check_fits(std::int64_t height, std::int64_t width, std::int64_t padding) const {
    if (height <= least_.height + 2 * padding && width <= least_.width + 2 * padding) return;
    const auto around = padding == 0 ? "" : fmt::format(" with padding {}", padding);
    fail(fmt::format("a crop within pictures of {}{}x{}{}", is_fixed_ ? "" : "at least ",
                     least_.height, least_.width, around),
         fmt::format("{}x{}", height, width));
  }

  void check_probability(double probability) const {
    if (!(probability >= 0 && probability <= 1)) {
      fail("a probability of 0 to 1", fmt::format("{}", probability));
    }
  }

  void check_area(double min_scale, double max_scale, double min_ratio, double max_ratio) const {
    if (!(min_scale >= 0 && min_scale <= max_scale && max_scale > 0 && max_scale <= 1)) {
      fail("a range of shares of the area within 0 to 1",
           fmt::format("{} to {}", min_scale, max_scale));
    }
    if (!(min_ratio > 0 && min_ratio <= max_ratio && std::isfinite(max_ratio))) {
      fail("a range of ratios above 0", fmt::format("{} to {}", min_ratio, max_ratio));
    }
  }

  void become(ImageSize size) {
    least_ = size;
    is_fixed_ = true;
  }

  std::size_t channels_;
  bool is_fixed_;
  ImageSize least_;  ///< the size, or where it is not fixed the least of both extents
  int phase_ = 0;
  std::string where_;
};

void check_output(DataType type) {
  const bool is_known = type == DataType::U8 || type == DataType::F16 || type == DataType::BF16 ||
                        type == DataType::F32;
  if (!is_known) {
    refuse("an output of u8, f16, bf16 or f32", std::string(lockstep::name_of(type)));
  }
}

}  // namespace

ImageSize check_pipeline(const Pipeline& pipeline, const Field& image) {
  if (!is_picture(image)) {
    refuse("a field of pictures, u8 [height, width, channels]", describe(image));
  }
  check_output(pipeline.output.type);
  if (pipeline.steps.size() > kMostSteps) {
    refuse(fmt::format("at most {} steps", kMostSteps), fmt::format("{}", pipeline.steps.size()));
  }
  Checker checker(image);
  for (std::size_t i = 0; i < pipeline.steps.size(); ++i) checker.check(i, pipeline.steps[i]);
  return checker.final_size();
}

}  // namespace lockstep::data

#pragma once

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "lockstep/base/data_type.h"
#include "lockstep/base/export.h"

namespace lockstep::data {

// What is to happen to a picture, as torchvision's transforms of the same names do it. Random steps
// draw by their place in the pipeline; `decide` in decisions.h says what they draw.

/// A window of this size at a random place over the picture with `padding` black pixels around it.
struct RandomCrop {
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t padding = 0;
  bool operator==(const RandomCrop&) const = default;
};

struct RandomHorizontalFlip {
  double probability = 0.5;
  bool operator==(const RandomHorizontalFlip&) const = default;
};

/// A window of random area and shape, resized to this size. The area is a share of the picture's;
/// the ratio is width to height, its logarithm uniform.
struct RandomResizedCrop {
  std::int64_t height = 0;
  std::int64_t width = 0;
  double min_scale = 0.08;
  double max_scale = 1;
  double min_ratio = 3.0 / 4;
  double max_ratio = 4.0 / 3;
  bool operator==(const RandomResizedCrop&) const = default;
};

/// Bilinear with antialiasing: every bit as Pillow.
struct Resize {
  std::int64_t height = 0;
  std::int64_t width = 0;
  bool operator==(const Resize&) const = default;
};

/// The shorter side gets this size, the longer side follows.
struct ResizeShorter {
  std::int64_t size = 0;
  bool operator==(const ResizeShorter&) const = default;
};

struct CenterCrop {
  std::int64_t height = 0;
  std::int64_t width = 0;
  bool operator==(const CenterCrop&) const = default;
};

/// Subtracts the mean of x/255 and divides by its deviation, per channel. With u8 output this is
/// left to the device, see `Transform::left_to_device`.
struct Normalize {
  std::vector<float> mean;
  std::vector<float> deviation;
  bool operator==(const Normalize&) const = default;
};

/// A box of random area and shape becomes 0, which is the mean after `Normalize`; with u8 output
/// it becomes the rounded mean, or 0 without `Normalize`. Always the last step.
struct RandomErasing {
  double probability = 0.5;
  double min_scale = 0.02;
  double max_scale = 0.33;
  double min_ratio = 0.3;
  double max_ratio = 3.3;
  bool operator==(const RandomErasing&) const = default;
};

using Step = std::variant<RandomCrop, RandomHorizontalFlip, RandomResizedCrop, Resize,
                          ResizeShorter, CenterCrop, Normalize, RandomErasing>;

/// "random-crop", "resize"
LOCKSTEP_API std::string_view name_of(const Step& step) noexcept;

/// In which order the numbers of a picture stand: by row, column, channel or channel, row, column.
enum class Layout : std::uint8_t { ChannelsLast, ChannelsFirst };

LOCKSTEP_API std::string_view name_of(Layout layout) noexcept;

/// u8 are the pixels as they are; f16, bf16 and f32 are x/255, normalized where the pipeline says
/// so, computed in f32 and rounded once.
struct OutputFormat {
  DataType type = DataType::U8;
  Layout layout = Layout::ChannelsLast;
  bool operator==(const OutputFormat&) const = default;
};

struct Pipeline {
  std::vector<Step> steps;
  OutputFormat output;
  bool operator==(const Pipeline&) const = default;
};

/// No pipeline has more steps.
inline constexpr std::size_t kMostSteps = 16;

}  // namespace lockstep::data

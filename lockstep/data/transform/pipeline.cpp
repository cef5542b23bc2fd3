#include "lockstep/data/transform/pipeline.h"

#include <array>

namespace lockstep::data {

std::string_view name_of(const Step& step) noexcept {
  constexpr std::array<std::string_view, std::variant_size_v<Step>> kNames{
      "random-crop", "random-horizontal-flip", "random-resized-crop",
      "resize",      "resize-shorter",         "center-crop",
      "normalize",   "random-erasing"};
  return kNames[step.index()];
}

std::string_view name_of(Layout layout) noexcept {
  switch (layout) {
    case Layout::ChannelsLast:
      return "channels-last";
    case Layout::ChannelsFirst:
      return "channels-first";
  }
  return "?";
}

}  // namespace lockstep::data

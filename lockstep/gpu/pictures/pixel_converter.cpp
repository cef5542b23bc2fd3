#include "lockstep/gpu/pictures/pixel_converter.h"

#include "lockstep/gpu/pictures/level_numbers.h"
#include "lockstep/gpu/pictures/upload.h"

namespace lockstep::gpu {

PixelConverter::PixelConverter(const std::optional<data::Normalize>& normalize,
                               std::int64_t channels, DataType type)
    : channels_(channels), type_(type) {
  const auto numbers = level_numbers(normalize, channels);
  division_ = numbers.division;
  values_ = on_device(numbers.values);
}

void PixelConverter::convert(const Pictures& pictures, void* out, Stream stream) const {
  convert_pixels({.pixels = pictures.pixels,
                  .layout = pictures.layout,
                  .samples = pictures.samples,
                  .height = pictures.size.height,
                  .width = pictures.size.width,
                  .channels = channels_,
                  .levels = {values_.as<float>(), division_},
                  .type = type_,
                  .out = out},
                 stream);
}

}  // namespace lockstep::gpu

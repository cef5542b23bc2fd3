#pragma once

#include <cstdint>
#include <optional>

#include "lockstep/base/data_type.h"
#include "lockstep/data/image.h"
#include "lockstep/data/transform/pipeline.h"
#include "lockstep/gpu/memory.h"
#include "lockstep/gpu/pictures/pixels.h"

namespace lockstep::gpu {

/// Makes numbers of 8-bit pictures on the current GPU: x/255, normalized where there is a
/// normalization, which is what `data::Transform::left_to_device` leaves to do. The numbers have
/// the bits that the transform would have given them, and lie channels-last.
///
/// Errors: `Options` for a normalization of other channels, or a type that is no float.
class PixelConverter {
 public:
  PixelConverter(const std::optional<data::Normalize>& normalize, std::int64_t channels,
                 DataType type);

  /// Pictures of one size, as a loader packs them.
  struct Pictures {
    const std::uint8_t* pixels = nullptr;
    data::Layout layout = data::Layout::ChannelsLast;
    std::int64_t samples = 0;
    data::ImageSize size{};
  };

  void convert(const Pictures& pictures, void* out, Stream stream) const;

 private:
  std::int64_t channels_;
  DataType type_;
  data::kernels::Division division_;
  DeviceMemory values_;
};

}  // namespace lockstep::gpu

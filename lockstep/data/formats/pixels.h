#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "lockstep/data/formats/decode_image.h"

namespace lockstep::data {

/// Checks the size that a picture's header claims, and asks for memory for its pixels.
std::span<std::uint8_t> ask_for_pixels(ImageSize size, std::string_view where, std::size_t offset,
                                       const PixelMemory& memory);

}  // namespace lockstep::data

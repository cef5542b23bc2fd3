#pragma once

#include <string_view>

#include "lockstep/data/formats/bytes.h"
#include "lockstep/data/formats/decode_image.h"

namespace lockstep::data {

bool is_png(Bytes file) noexcept;

/// `decode_image` for PNG files.
ImageSize decode_png(Bytes file, std::string_view where, const PixelMemory& memory);

}  // namespace lockstep::data

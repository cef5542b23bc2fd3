#pragma once

#include <string_view>

#include "lockstep/data/formats/bytes.h"
#include "lockstep/data/formats/decode_image.h"

namespace lockstep::data {

bool is_jpeg(Bytes file) noexcept;

/// `decode_image` for JPEG files. Damage that would cost pixels is an error here, where libjpeg by
/// itself would go on with gray ones.
ImageSize decode_jpeg(Bytes file, std::string_view where, const PixelMemory& memory);

}  // namespace lockstep::data

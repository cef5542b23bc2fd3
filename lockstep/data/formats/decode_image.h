#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "lockstep/data/formats/bytes.h"
#include "lockstep/data/image.h"

namespace lockstep::data {

/// Asked for memory once the size of a picture is known: `height * width * 3` bytes.
using PixelMemory = std::function<std::span<std::uint8_t>(ImageSize)>;

/// Decodes a JPEG or PNG file into RGB, 8 bits each, channels-last: the pixels that Pillow's
/// `convert("RGB")` gives. Grays and palettes are expanded, transparency is dropped, 16-bit samples
/// keep their high byte (also gray ones, which Pillow would clip), and no rotation is applied.
///
/// Which of the two it is, the first bytes decide. May be called by several threads at once.
///
/// Errors: `Data`, which `where` begins, for files that are damaged, cut off, of another kind, or
/// too large to be meant.
ImageSize decode_image(Bytes file, std::string_view where, const PixelMemory& memory);

}  // namespace lockstep::data

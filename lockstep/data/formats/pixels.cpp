#include "lockstep/data/formats/pixels.h"

#include <fmt/format.h>

namespace lockstep::data {
namespace {

/// What Pillow accepts. A header is easily damaged, or made, to ask for all memory.
constexpr std::int64_t kMostPixels = 178'956'970;

}  // namespace

std::span<std::uint8_t> ask_for_pixels(ImageSize size, std::string_view where, std::size_t offset,
                                       const PixelMemory& memory) {
  if (size.height < 1 || size.width < 1 || size.height > kMostPixels / size.width) {
    throw damaged(where, offset, fmt::format("a picture of 1 to {} pixels", kMostPixels),
                  fmt::format("{} x {}", size.height, size.width));
  }
  const auto pixels = memory(size);
  const auto wanted = static_cast<std::size_t>(size.height * size.width * 3);
  if (pixels.size() != wanted) {
    throw Error(ErrorKind::Bug, fmt::format("{}: expected memory of {} bytes for {} x {} pixels, "
                                            "found {}",
                                            where, wanted, size.height, size.width, pixels.size()));
  }
  return pixels;
}

}  // namespace lockstep::data

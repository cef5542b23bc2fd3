#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::data {

/// The extents of a picture. Zero stands for "differs from sample to sample".
struct ImageSize {
  std::int64_t height = 0;
  std::int64_t width = 0;
  bool operator==(const ImageSize&) const = default;
};

/// A picture in someone else's memory: rows of 8-bit pixels, the channels of a pixel side by side
/// (channels-last), which is how every data set and decoder hands them over.
struct ImageView {
  const std::uint8_t* pixels = nullptr;
  ImageSize size;
  std::int64_t channels = 0;
  std::ptrdiff_t row_bytes = 0;  ///< from one row to the next

  const std::uint8_t* row(std::int64_t y) const noexcept { return pixels + y * row_bytes; }
};

/// A picture whose rows follow each other without gaps.
inline ImageView dense_view(const std::uint8_t* pixels, ImageSize size, std::int64_t channels) {
  return {pixels, size, channels, static_cast<std::ptrdiff_t>(size.width * channels)};
}

}  // namespace lockstep::data

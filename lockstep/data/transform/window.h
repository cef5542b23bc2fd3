#pragma once

#include <algorithm>
#include <cstdint>

#include "lockstep/data/image.h"

namespace lockstep::data {

/// A rectangle of pixels. It may reach beyond the picture it lies on.
struct Box {
  std::int64_t top = 0;
  std::int64_t left = 0;
  ImageSize size;
  bool operator==(const Box&) const = default;
};

/// What crops, padding and flips make of a picture, without touching a pixel: a black picture of
/// `size` that shows the part `visible` of the source at (`top`, `left`), all of it mirrored where
/// `flipped`. `visible` never exceeds the window; it is empty where a crop fell into the padding.
struct Window {
  Box visible;
  std::int64_t top = 0;
  std::int64_t left = 0;
  ImageSize size;
  bool flipped = false;

  static Window over(ImageSize source) { return {{0, 0, source}, 0, 0, source, false}; }

  void flip() noexcept { flipped = !flipped; }

  void crop(Box box) noexcept {
    if (flipped) box.left = size.width - box.left - box.size.width;
    clip(visible.top, visible.size.height, top, box.top, box.size.height);
    clip(visible.left, visible.size.width, left, box.left, box.size.width);
    size = box.size;
  }

  bool is_empty() const noexcept { return visible.size.height == 0 || visible.size.width == 0; }
  /// Whether rows of the window are rows of the source.
  bool is_plain() const noexcept { return !flipped && visible.size == size; }

  bool operator==(const Window&) const = default;

 private:
  /// One dimension of `crop`: the visible part begins at `at` in the old window.
  static void clip(std::int64_t& from, std::int64_t& extent, std::int64_t& at,
                   std::int64_t box_from, std::int64_t box_extent) noexcept {
    const auto begin = std::clamp<std::int64_t>(box_from - at, 0, extent);
    const auto end = std::clamp<std::int64_t>(box_from + box_extent - at, begin, extent);
    at = begin < end ? at + begin - box_from : 0;
    from += begin;
    extent = end - begin;
  }
};

/// The part of a picture that a box within it covers.
inline ImageView part_of(const ImageView& image, const Box& box) noexcept {
  return {image.row(box.top) + box.left * image.channels, box.size, image.channels,
          image.row_bytes};
}

}  // namespace lockstep::data

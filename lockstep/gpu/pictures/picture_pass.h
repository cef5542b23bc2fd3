#pragma once

#include <cstdint>

namespace lockstep::gpu {

// What a GPU is told about pictures: plain numbers that the host decided.
//
// A picture goes through passes: one for each resize of its pipeline, or a single one where there
// is none. A pass looks at a picture through the window `before`, resizes what it sees, looks at
// the result through the window `after`, and writes what it sees there.

/// A `data::Window`: a black picture, mirrored as a whole where `flipped`, that shows a part of
/// another one at (top, left). Where it shows nothing, all but the width is 0.
struct PassWindow {
  std::int32_t from_top = 0;  ///< where the part begins that is shown
  std::int32_t from_left = 0;
  std::int32_t shown_height = 0;
  std::int32_t shown_width = 0;
  std::int32_t top = 0;
  std::int32_t left = 0;
  std::int32_t width = 0;  ///< of the window; kernels need no height
  std::int32_t flipped = 0;
};

/// A table of a resize within all tables, and how many weights an entry has.
struct TablePlace {
  std::int32_t at = 0;
  std::int32_t taps = 0;
};

/// What one pass does with one picture. It travels to the GPU with every batch.
struct alignas(16) PicturePass {
  std::int64_t source = 0;  ///< the first pass: which sample of the set; later: which of the batch
  TablePlace rows;          ///< of the horizontal direction
  TablePlace columns;       ///< of the vertical direction
  PassWindow before;
  PassWindow after;
  std::int32_t erased_top = 0;  ///< what becomes 0, or the mean, in the output; may be empty
  std::int32_t erased_left = 0;
  std::int32_t erased_height = 0;
  std::int32_t erased_width = 0;
};

enum class Resizing : std::uint8_t {
  None,    ///< pixels are copied through `after`
  Wide,    ///< rows are widened in shared memory, then summed
  Direct,  ///< each number is summed by itself: for pictures whose widened rows do not fit
};

/// What a pass does with every picture.
struct PassShape {
  Resizing resizing = Resizing::None;
  std::int64_t source_stride = 0;  ///< bytes from one picture to the next; a multiple of 16
  std::int32_t source_row_bytes = 0;
  std::int32_t height = 0;  ///< of what is written
  std::int32_t width = 0;
  std::int32_t channels = 0;
  std::int32_t band_rows = 0;  ///< rows of the output that one block of threads makes
  std::int32_t wide_rows = 0;  ///< the most rows that a band needs widened
  std::int32_t wide_stride = 0;
  std::int32_t staged_bytes = 0;  ///< the picture, where it is copied to shared memory first

  constexpr std::int32_t bands() const noexcept { return (height + band_rows - 1) / band_rows; }
  std::int32_t shared_bytes() const noexcept { return wide_rows * wide_stride + staged_bytes; }
};

/// Pictures begin at multiples of this, so that they can be copied 16 bytes at a time.
constexpr std::int64_t aligned_stride(std::int64_t bytes) noexcept {
  return (bytes + 15) / 16 * 16;
}

}  // namespace lockstep::gpu

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/data/image.h"
#include "lockstep/data/transform/pipeline.h"
#include "lockstep/data/transform/window.h"

// The last pass over a picture, compiled for each vector unit and chosen at run time: rows are
// taken through a window, some at a time, converted and written. All units give the same bits.
namespace lockstep::data::kernels {

/// How ((x / 255) - mean) / deviation is computed. The result has the same bits either way.
enum class Division : std::uint8_t {
  Divide,
  /// By multiplying with the reciprocal and correcting the quotient (Markstein), which is exact
  /// for the numbers of this conversion: all 256 of each channel were tried. Only for units that
  /// multiply and add with one rounding; others divide.
  Correct,
};

/// What becomes of pixels, decided once for all pictures of a pipeline.
struct Conversion {
  OutputFormat format;
  Division division = Division::Divide;
  /// What belongs to numbers that follow each other, for as many as the widest vector has.
  /// Channels-last: by channel in turn, and a turn more, to begin with any channel. Channels-first:
  /// `kWidest` of each channel, since numbers that follow each other are of one.
  std::vector<float> mean;
  std::vector<float> deviation;
  std::vector<float> reciprocal;  ///< of the deviation

  static constexpr std::int64_t kWidest = 16;
};

/// As many rows at a time as the first-level cache holds several times over; at least one.
constexpr std::int64_t rows_at_a_time(ImageSize size, std::int64_t channels) {
  constexpr std::int64_t kBytes = 4096;
  return std::clamp<std::int64_t>(kBytes / (size.width * channels), 1, size.height);
}

/// Memory of one thread, for the rows that are converted at a time. Bytes that stay channels-last
/// need none.
struct RowMemory {
  std::uint8_t* rows = nullptr;
  std::uint8_t* channels = nullptr;  ///< the same, one channel after the other; for channels-first
  float* floats = nullptr;           ///< for f16 and bf16
};

/// Writes rows of the window as they are.
void copy_window(const Window& window, const ImageView& image, std::int64_t first_row,
                 std::int64_t row_count, std::uint8_t* out, std::ptrdiff_t out_row_bytes);

/// Writes the whole window. `out` may have any alignment.
void convert_window(const Window& window, const ImageView& image, const Conversion& conversion,
                    const RowMemory& memory, std::byte* out);

}  // namespace lockstep::data::kernels

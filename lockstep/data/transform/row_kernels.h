#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lockstep/data/image.h"
#include "lockstep/data/transform/pipeline.h"
#include "lockstep/data/transform/window.h"

// The last pass over a picture, compiled for each vector unit and chosen at run time: rows are
// taken through a window, converted and written. All units give the same bits.
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
  /// For each number of a row, in the order of the output: a row of pixels, or for channels-first
  /// a row of each channel.
  std::vector<float> mean;
  std::vector<float> deviation;
  std::vector<float> reciprocal;  ///< of the deviation
};

/// Memory of one thread, for one row of the output each.
struct RowMemory {
  std::uint8_t* row = nullptr;
  std::uint8_t* channels = nullptr;  ///< the row, one channel after the other
  float* floats = nullptr;
};

/// Writes rows of the window as they are.
void copy_window(const Window& window, const ImageView& image, std::int64_t first_row,
                 std::int64_t row_count, std::uint8_t* out, std::ptrdiff_t out_row_bytes);

/// Writes the whole window. `out` may have any alignment.
void convert_window(const Window& window, const ImageView& image, const Conversion& conversion,
                    const RowMemory& memory, std::byte* out);

}  // namespace lockstep::data::kernels

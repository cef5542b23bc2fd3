#pragma once

#include <cstddef>
#include <cstdint>

#include "lockstep/base/data_type.h"
#include "lockstep/data/transform/pipeline.h"
#include "lockstep/data/transform/row_kernels.h"
#include "lockstep/gpu/pictures/picture_pass.h"
#include "lockstep/gpu/stream.h"

namespace lockstep::gpu {

// What a GPU does with pictures and other fields of samples, with the bits of `data::Transform`.
// All pointers are to its memory. No call waits for it or copies anything, so a step can be
// captured once and launched again. `PixelConverter`, `PictureMaker` and `DeviceSet` own what these
// calls read.

/// What levels are converted by, see `LevelNumbers`.
struct LevelTable {
  const float* values = nullptr;
  data::kernels::Division division = data::kernels::Division::Divide;
};

/// 8-bit pictures that a loader packed, to numbers channels-last.
struct ConvertPixels {
  const std::uint8_t* pixels = nullptr;
  data::Layout layout = data::Layout::ChannelsLast;  ///< of the pixels
  std::int64_t samples = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;
  LevelTable levels{};
  DataType type = DataType::F32;  ///< of the output: F32, F16 or BF16
  void* out = nullptr;
};

/// Errors: `Options` for another type.
void convert_pixels(const ConvertPixels& call, Stream stream);

/// The values of a field for some samples, one after the other.
struct GatherField {
  const std::byte* values = nullptr;
  std::int64_t bytes = 0;   ///< of one sample
  std::int64_t stride = 0;  ///< from one sample to the next
  const std::int64_t* samples = nullptr;
  std::int64_t count = 0;
  void* out = nullptr;
};

void gather_field(const GatherField& call, Stream stream);

/// One pass over the pictures of a batch, see picture_pass.h.
struct MakePictures {
  PassShape shape{};
  const PicturePass* passes = nullptr;   ///< of each picture
  const std::int32_t* tables = nullptr;  ///< `ResizeTables::numbers`
  LevelTable levels{};
  const std::uint8_t* sources = nullptr;
  std::int64_t samples = 0;
  DataType type = DataType::U8;  ///< of the output: U8, F16, BF16 or F32
  void* out = nullptr;
  std::int64_t out_stride = 0;  ///< numbers from one picture of the output to the next
};

/// Errors: `Options` for another type.
void make_pictures(const MakePictures& call, Stream stream);

}  // namespace lockstep::gpu

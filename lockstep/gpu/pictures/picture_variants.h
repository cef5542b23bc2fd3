#pragma once

#include <cstdint>

#include "lockstep/base/data_type.h"
#include "lockstep/gpu/pictures/picture_pass.h"
#include "lockstep/gpu/pictures/refuse_type.h"

// Which of its compiled forms a pass runs as: kernels and their test on the host choose the same.
namespace lockstep::gpu {

/// Pictures of 1 and 3 channels have forms of their own; others are worked on by one for any
/// number. As many numbers are written at once as a row can be divided into.
template <typename T, Resizing resizing, typename Run>
void run_with_length(const PassShape& shape, const void* out, Run& run) {
  const auto length = shape.width * shape.channels;
  const bool is_aligned = reinterpret_cast<std::uintptr_t>(out) % 16 == 0;
  const bool fits_8 = is_aligned && length % 8 == 0;
  const bool fits_4 = is_aligned && length % 4 == 0;
  if (shape.channels == 1 && fits_8) return run.template with<T, resizing, 1, 8>();
  if (shape.channels == 1 && fits_4) return run.template with<T, resizing, 1, 4>();
  if (shape.channels == 3 && fits_8) return run.template with<T, resizing, 3, 8>();
  if (shape.channels == 3 && fits_4) return run.template with<T, resizing, 3, 4>();
  if (fits_8) return run.template with<T, resizing, 0, 8>();
  run.template with<T, resizing, 0, 1>();
}

template <typename T, typename Run>
void run_with_type(const PassShape& shape, const void* out, Run& run) {
  switch (shape.resizing) {
    case Resizing::None:
      return run_with_length<T, Resizing::None>(shape, out, run);
    case Resizing::Wide:
      return run_with_length<T, Resizing::Wide>(shape, out, run);
    case Resizing::Direct:
      return run.template with<T, Resizing::Direct, 0, 1>();
  }
}

/// Calls `run.with<T, resizing, channels, numbers at once>()`.
template <typename Run>
void run_variant(const PassShape& shape, DataType type, const void* out, Run& run) {
  switch (type) {
    case DataType::U8:
      return run_with_type<std::uint8_t>(shape, out, run);
    case DataType::F16:
      return run_with_type<Float16>(shape, out, run);
    case DataType::BF16:
      return run_with_type<BFloat16>(shape, out, run);
    case DataType::F32:
      return run_with_type<float>(shape, out, run);
    default:
      refuse_type("pictures", "u8, f16, bf16 or f32", type);
  }
}

}  // namespace lockstep::gpu

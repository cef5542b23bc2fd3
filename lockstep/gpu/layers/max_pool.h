#pragma once

#include <cstdint>

#include "lockstep/base/data_type.h"
#include "lockstep/gpu/stream.h"

namespace lockstep::gpu {

/// Pictures that lie channels-last, and windows over them. A window has at most 16 by 16 pixels.
struct PoolShape {
  DataType type = DataType::F32;  ///< F32, F16 or BF16
  std::int64_t samples = 0;
  std::int64_t height = 0;
  std::int64_t width = 0;
  std::int64_t channels = 0;
  std::int64_t kernel = 0;
  std::int64_t stride = 0;
  std::int64_t padding = 0;  ///< at most half a window

  constexpr std::int64_t out_height() const noexcept {
    return (height + 2 * padding - kernel) / stride + 1;
  }
  constexpr std::int64_t out_width() const noexcept {
    return (width + 2 * padding - kernel) / stride + 1;
  }
};

/// The largest number of each window, and where in the window it stands: the first of equals, a NaN
/// above all, as libtorch has it.
struct MaxPoolForward {
  PoolShape shape{};
  const void* x = nullptr;
  void* y = nullptr;
  std::uint8_t* places = nullptr;  ///< one for each number of y
};

/// Each pixel adds up what its windows hand back, in order: nothing is added atomically, so equal
/// inputs give equal bits in every run.
struct MaxPoolBackward {
  PoolShape shape{};
  const void* dy = nullptr;
  const std::uint8_t* places = nullptr;
  void* dx = nullptr;
};

void max_pool_forward(const MaxPoolForward& call, Stream stream);
void max_pool_backward(const MaxPoolBackward& call, Stream stream);

}  // namespace lockstep::gpu

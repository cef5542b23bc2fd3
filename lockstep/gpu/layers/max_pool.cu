#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/gpu/check.h"
#include "lockstep/gpu/layers/max_pool.h"
#include "lockstep/gpu/layers/packets.cuh"

namespace lockstep::gpu {
namespace {

constexpr unsigned kThreads = 256;

/// Where a thread works: a pixel, and the first of some channels of it.
struct Site {
  std::int64_t sample;
  int row;
  int column;
  int channel;
};

template <int kCount>
__device__ Site site_of(std::int64_t index, int height, int width, int channels) {
  const int packets = channels / kCount;
  const auto pixel = index / packets;
  const auto line = pixel / width;
  return {line / height, static_cast<int>(line % height), static_cast<int>(pixel % width),
          static_cast<int>(index % packets) * kCount};
}

template <typename T, int kCount>
__global__ void pool(MaxPoolForward call, std::int64_t count) {
  const auto index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= count) return;
  const auto& shape = call.shape;
  const auto height = static_cast<int>(shape.height);
  const auto width = static_cast<int>(shape.width);
  const auto channels = static_cast<int>(shape.channels);
  const auto kernel = static_cast<int>(shape.kernel);
  const auto site = site_of<kCount>(index, static_cast<int>(shape.out_height()),
                                    static_cast<int>(shape.out_width()), channels);
  const int top = site.row * static_cast<int>(shape.stride) - static_cast<int>(shape.padding);
  const int left = site.column * static_cast<int>(shape.stride) - static_cast<int>(shape.padding);
  float largest[kCount];
  std::uint8_t places[kCount];
#pragma unroll
  for (int i = 0; i < kCount; ++i) {
    largest[i] = -INFINITY;
    places[i] = static_cast<std::uint8_t>(max(0, -top) * kernel + max(0, -left));
  }
  for (int i = max(0, -top); i < kernel && top + i < height; ++i) {
    for (int j = max(0, -left); j < kernel && left + j < width; ++j) {
      const auto pixel = (site.sample * height + top + i) * width + left + j;
      float values[kCount];
      unpack(load_packet<kCount, Reading::Again>(static_cast<const T*>(call.x) + pixel * channels +
                                                 site.channel),
             values);
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        if (values[k] > largest[k] || isnan(values[k])) {
          largest[k] = values[k];
          places[k] = static_cast<std::uint8_t>(i * kernel + j);
        }
      }
    }
  }
  const auto at = index * kCount;
  store_packet(pack<T, kCount>(largest), static_cast<T*>(call.y) + at);
#pragma unroll
  for (int k = 0; k < kCount; ++k) call.places[at + k] = places[k];
}

/// The windows over a row or column: [first, last].
struct Windows {
  int first;
  int last;
};

__device__ Windows windows_over(int position, const PoolShape& shape, int count) {
  const int from_padding = position + static_cast<int>(shape.padding);
  const int kernel = static_cast<int>(shape.kernel);
  const int stride = static_cast<int>(shape.stride);
  const int first = from_padding < kernel ? 0 : (from_padding - kernel) / stride + 1;
  return {first, min(from_padding / stride, count - 1)};
}

template <typename T, int kCount>
__global__ void spread(MaxPoolBackward call, std::int64_t count) {
  const auto index = std::int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= count) return;
  const auto& shape = call.shape;
  const auto channels = static_cast<int>(shape.channels);
  const auto out_height = static_cast<int>(shape.out_height());
  const auto out_width = static_cast<int>(shape.out_width());
  const auto site = site_of<kCount>(index, static_cast<int>(shape.height),
                                    static_cast<int>(shape.width), channels);
  const auto rows = windows_over(site.row, shape, out_height);
  const auto columns = windows_over(site.column, shape, out_width);
  float sums[kCount] = {};
  for (int row = rows.first; row <= rows.last; ++row) {
    for (int column = columns.first; column <= columns.last; ++column) {
      const auto i =
          site.row + static_cast<int>(shape.padding) - row * static_cast<int>(shape.stride);
      const auto j =
          site.column + static_cast<int>(shape.padding) - column * static_cast<int>(shape.stride);
      const auto mine = static_cast<std::uint8_t>(i * static_cast<int>(shape.kernel) + j);
      const auto at =
          ((site.sample * out_height + row) * out_width + column) * channels + site.channel;
      float values[kCount];
      unpack(load_packet<kCount, Reading::Again>(static_cast<const T*>(call.dy) + at), values);
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        if (call.places[at + k] == mine) sums[k] += values[k];
      }
    }
  }
  store_packet(pack<T, kCount>(sums), static_cast<T*>(call.dx) + index * kCount);
}

bool is_wide(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory) % 16 == 0;
}

unsigned blocks_for(std::int64_t count) {
  return static_cast<unsigned>((count + kThreads - 1) / kThreads);
}

template <typename T>
void forward(const MaxPoolForward& call, Stream stream) {
  const auto& shape = call.shape;
  const auto numbers = shape.samples * shape.out_height() * shape.out_width() * shape.channels;
  if (shape.channels % kWide<T> == 0 && is_wide(call.x) && is_wide(call.y)) {
    const auto count = numbers / kWide<T>;
    pool<T, kWide<T>><<<blocks_for(count), kThreads, 0, stream>>>(call, count);
  } else {
    pool<T, 1><<<blocks_for(numbers), kThreads, 0, stream>>>(call, numbers);
  }
  check_launch("max_pool_forward");
}

template <typename T>
void backward(const MaxPoolBackward& call, Stream stream) {
  const auto& shape = call.shape;
  const auto numbers = shape.samples * shape.height * shape.width * shape.channels;
  if (shape.channels % kWide<T> == 0 && is_wide(call.dy) && is_wide(call.dx)) {
    const auto count = numbers / kWide<T>;
    spread<T, kWide<T>><<<blocks_for(count), kThreads, 0, stream>>>(call, count);
  } else {
    spread<T, 1><<<blocks_for(numbers), kThreads, 0, stream>>>(call, numbers);
  }
  check_launch("max_pool_backward");
}

void check_shape(const PoolShape& shape) {
  const bool fits = shape.kernel >= 1 && shape.kernel <= 16 && shape.stride >= 1 &&
                    shape.padding >= 0 && 2 * shape.padding <= shape.kernel &&
                    shape.height + 2 * shape.padding >= shape.kernel &&
                    shape.width + 2 * shape.padding >= shape.kernel;
  if (!fits) throw Error(ErrorKind::Options, "max pool: expected windows that fit the picture");
}

/// Calls `run` with a value of the type that numbers are of.
template <typename Run>
void with_type(DataType type, const Run& run) {
  switch (type) {
    case DataType::F32:
      return run(float{});
    case DataType::F16:
      return run(Float16{});
    case DataType::BF16:
      return run(BFloat16{});
    default:
      throw Error(ErrorKind::Bug, "max pool: expected f32, fp16 or bf16");
  }
}

}  // namespace

void max_pool_forward(const MaxPoolForward& call, Stream stream) {
  check_shape(call.shape);
  if (call.shape.samples * call.shape.channels == 0) return;
  with_type(call.shape.type, [&](auto number) { forward<decltype(number)>(call, stream); });
}

void max_pool_backward(const MaxPoolBackward& call, Stream stream) {
  check_shape(call.shape);
  if (call.shape.samples * call.shape.channels == 0) return;
  with_type(call.shape.type, [&](auto number) { backward<decltype(number)>(call, stream); });
}

}  // namespace lockstep::gpu

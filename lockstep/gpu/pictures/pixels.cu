#include <algorithm>

#include "lockstep/gpu/check.h"
#include "lockstep/gpu/pictures/level_math.h"
#include "lockstep/gpu/pictures/pixels.h"
#include "lockstep/gpu/pictures/refuse_type.h"

namespace lockstep::gpu {
namespace {

/// A multiple of the channels that kernels know, so that a thread always meets the same ones.
constexpr int kThreads = 192;
/// Numbers that a thread writes at once, and how often it does: what is read for all of them is
/// under way together.
constexpr int kRun = 8;
constexpr int kRunsOfThread = 4;

bool is_multiple(const void* address, std::uintptr_t of) {
  return reinterpret_cast<std::uintptr_t>(address) % of == 0;
}

template <Division division, typename T>
__device__ void convert_one(const std::uint8_t* pixels, std::int64_t at, std::int32_t channels,
                            const float* values, T* out) {
  const ChannelNumbers<0> numbers(values, channels, static_cast<std::int32_t>(at % channels));
  const float level[1] = {float_of(pixels[at])};
  convert_run<division>(level, numbers, 0, out + at);
}

/// Pixels channels-last, from 8 bytes to 8 numbers.
template <Division division, typename T, int C>
__global__ void __launch_bounds__(kThreads)
    convert_runs(const std::uint8_t* pixels, std::int64_t count, std::int32_t channels,
                 const float* values, T* out) {
  const std::int64_t runs = count / kRun;
  const int thread = static_cast<int>(threadIdx.x);
  const auto first = static_cast<std::int64_t>(blockIdx.x) * (kThreads * kRunsOfThread) + thread;
  Words<2> words[kRunsOfThread];
#pragma unroll
  for (int i = 0; i < kRunsOfThread; ++i) {
    const auto run = first + i * kThreads;
    if (run < runs) words[i] = load_words<2>(pixels + run * kRun);
  }
  ChannelNumbers<C> numbers(values, channels, thread * kRun % (C > 0 ? C : channels));
#pragma unroll
  for (int i = 0; i < kRunsOfThread; ++i) {
    const auto run = first + i * kThreads;
    if (run >= runs) break;
    if constexpr (C == 0) numbers.first = static_cast<std::int32_t>(run * kRun % channels);
    float levels[kRun];
#pragma unroll
    for (int k = 0; k < kRun; ++k) levels[k] = level_in(words[i].word[k / 4], k % 4);
    convert_run<division>(levels, numbers, 0, out + run * kRun);
  }
  const auto last = runs * kRun + thread;
  if (blockIdx.x == 0 && last < count) {
    convert_one<division>(pixels, last, channels, values, out);
  }
}

/// The same at any address.
template <Division division, typename T>
__global__ void __launch_bounds__(kThreads)
    convert_each(const std::uint8_t* pixels, std::int64_t count, std::int32_t channels,
                 const float* values, T* out) {
  const auto at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at < count) convert_one<division>(pixels, at, channels, values, out);
}

/// Pixels channels-first: a block for some numbers of a picture, in turn for several pictures.
template <Division division, typename T, int C, int V>
__global__ void __launch_bounds__(kThreads)
    convert_planes(const std::uint8_t* pixels, std::int64_t samples, std::int32_t area,
                   std::int32_t channel_count, const float* values, T* out) {
  const std::int32_t channels = C > 0 ? C : channel_count;
  const auto picture_numbers = static_cast<std::int64_t>(area) * channels;
  const auto first = (static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x) * V;
  if (first >= picture_numbers) return;
  const auto first_pixel = static_cast<std::int32_t>(first / channels);
  const auto first_channel =
      static_cast<std::int32_t>(first - first_pixel * std::int64_t{channels});
  const ChannelNumbers<C> numbers(values, channels, first_channel);
  for (std::int64_t picture = blockIdx.y; picture < samples; picture += gridDim.y) {
    const auto* const planes = pixels + picture * picture_numbers;
    auto pixel = first_pixel;
    auto channel = first_channel;
    float levels[V];
#pragma unroll
    for (int i = 0; i < V; ++i) {
      levels[i] = float_of(planes[static_cast<std::int64_t>(channel) * area + pixel]);
      if (++channel == channels) {
        channel = 0;
        ++pixel;
      }
    }
    convert_run<division>(levels, numbers, 0, out + picture * picture_numbers + first);
  }
}

unsigned blocks_for(std::int64_t work, std::int64_t of_block) {
  return static_cast<unsigned>((work + of_block - 1) / of_block);
}

template <Division division, typename T>
void convert_last(const ConvertPixels& call, Stream stream) {
  const auto count = call.samples * call.height * call.width * call.channels;
  const auto channels = static_cast<std::int32_t>(call.channels);
  auto* const out = static_cast<T*>(call.out);
  const auto* const values = call.levels.values;
  if (!is_multiple(call.pixels, kRun) || !is_multiple(call.out, 16)) {
    convert_each<division><<<blocks_for(count, kThreads), kThreads, 0, stream>>>(
        call.pixels, count, channels, values, out);
    return;
  }
  const auto grid = std::max(blocks_for(count / kRun, std::int64_t{kThreads} * kRunsOfThread), 1U);
  const auto launch = [&](auto kernel) {
    kernel<<<grid, kThreads, 0, stream>>>(call.pixels, count, channels, values, out);
  };
  if (channels == 1) return launch(convert_runs<division, T, 1>);
  if (channels == 3) return launch(convert_runs<division, T, 3>);
  launch(convert_runs<division, T, 0>);
}

template <Division division, typename T>
void convert_first(const ConvertPixels& call, Stream stream) {
  constexpr std::int64_t kMostRows = 65535;
  const auto area = call.height * call.width;
  const bool is_wide = is_multiple(call.out, 16) && area * call.channels % kRun == 0;
  const auto of_block = std::int64_t{kThreads} * (is_wide ? kRun : 1);
  const dim3 grid(blocks_for(area * call.channels, of_block),
                  static_cast<unsigned>(std::min(call.samples, kMostRows)));
  const auto launch = [&](auto kernel) {
    kernel<<<grid, kThreads, 0, stream>>>(
        call.pixels, call.samples, static_cast<std::int32_t>(area),
        static_cast<std::int32_t>(call.channels), call.levels.values, static_cast<T*>(call.out));
  };
  if (is_wide && call.channels == 3) return launch(convert_planes<division, T, 3, kRun>);
  if (is_wide) return launch(convert_planes<division, T, 0, kRun>);
  launch(convert_planes<division, T, 0, 1>);
}

template <Division division, typename T>
void convert_to(const ConvertPixels& call, Stream stream) {
  const bool is_last = call.layout == data::Layout::ChannelsLast || call.channels == 1;
  is_last ? convert_last<division, T>(call, stream) : convert_first<division, T>(call, stream);
  check_launch("convert_pixels");
}

template <typename T>
void convert_as(const ConvertPixels& call, Stream stream) {
  if (call.levels.division == Division::Correct) {
    return convert_to<Division::Correct, T>(call, stream);
  }
  convert_to<Division::Divide, T>(call, stream);
}

/// A word of each thread: as many as a value has, for each sample.
template <typename Word>
__global__ void __launch_bounds__(kThreads)
    gather_words(const Word* values, std::int64_t words, std::int64_t stride,
                 const std::int64_t* samples, std::int64_t count, Word* out) {
  const auto at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (at >= words * count) return;
  const auto place = at / words;
  out[at] = values[samples[place] * stride + (at - place * words)];
}

template <typename Word>
bool try_gather(const GatherField& call, Stream stream) {
  constexpr std::int64_t kSize = sizeof(Word);
  const bool fits = call.bytes % kSize == 0 && call.stride % kSize == 0 &&
                    is_multiple(call.values, sizeof(Word)) && is_multiple(call.out, sizeof(Word));
  if (!fits) return false;
  const auto words = call.bytes / kSize;
  gather_words<<<blocks_for(words * call.count, kThreads), kThreads, 0, stream>>>(
      reinterpret_cast<const Word*>(call.values), words, call.stride / kSize, call.samples,
      call.count, static_cast<Word*>(call.out));
  check_launch("gather_field");
  return true;
}

}  // namespace

void convert_pixels(const ConvertPixels& call, Stream stream) {
  if (call.samples == 0) return;
  switch (call.type) {
    case DataType::F32:
      return convert_as<float>(call, stream);
    case DataType::F16:
      return convert_as<Float16>(call, stream);
    case DataType::BF16:
      return convert_as<BFloat16>(call, stream);
    default:
      refuse_type("pixels", "f16, bf16 or f32", call.type);
  }
}

void gather_field(const GatherField& call, Stream stream) {
  if (call.count == 0) return;
  static_cast<void>(try_gather<uint4>(call, stream) || try_gather<uint2>(call, stream) ||
                    try_gather<unsigned>(call, stream) || try_gather<unsigned char>(call, stream));
}

}  // namespace lockstep::gpu

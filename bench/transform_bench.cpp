// One core's time for each picture, over pictures and outputs that no second-level cache holds.
#include <benchmark/benchmark.h>

#include <cstring>

#include "lockstep/base/philox.h"
#include "lockstep/data/transform/presets.h"
#include "lockstep/data/transform/transform.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kBytesInRotation = 24 << 20;

struct Pictures {
  ImageSize size;
  std::int64_t channels = 3;
  bool has_any_size = false;

  std::size_t bytes() const {
    return static_cast<std::size_t>(size.height * size.width * channels);
  }
  Field field() const {
    if (has_any_size) return {"image", DataType::U8, {0, 0, channels}, FieldKind::AnySizeImage};
    return {"image", DataType::U8, {size.height, size.width, channels}};
  }
};

std::vector<std::uint8_t> noise(std::size_t count) {
  std::vector<std::uint8_t> bytes(count);
  for (std::size_t i = 0; i + 16 <= count; i += 16) {
    const auto words = philox(1, {static_cast<std::uint32_t>(i), 0, 0, 0});
    std::memcpy(bytes.data() + i, words.data(), 16);
  }
  return bytes;
}

void run(benchmark::State& state, const Pictures& pictures, const Pipeline& pipeline) {
  const Transform transform(pipeline, pictures.field());
  const auto count = std::max<std::size_t>(2, kBytesInRotation / pictures.bytes());
  const auto pixels = noise(count * pictures.bytes());
  // A batch or two of outputs, as in a loader's ring.
  const auto out_bytes = bytes_of(transform.output_field());
  std::vector<std::byte> out(128 * out_bytes);
  Scratch scratch;
  std::uint64_t sample = 0;
  for (auto _ : state) {
    // A stride that the prefetcher does not follow, as in a shuffled epoch.
    const auto* picture = pixels.data() + (sample * 7919 % count) * pictures.bytes();
    transform.apply(dense_view(picture, pictures.size, pictures.channels),
                    {.seed = 1, .epoch = 0, .sample = sample}, scratch,
                    out.data() + sample % 128 * out_bytes);
    benchmark::ClobberMemory();
    ++sample;
  }
  state.SetItemsProcessed(state.iterations());
}

/// What `none` is measured by.
void copy(benchmark::State& state) {
  const Pictures pictures{{32, 32}};
  const auto bytes = pictures.bytes();
  const auto count = kBytesInRotation / bytes;
  const auto pixels = noise(count * bytes);
  std::vector<std::byte> out(128 * bytes);
  std::uint64_t sample = 0;
  for (auto _ : state) {
    std::memcpy(out.data() + sample % 128 * bytes, pixels.data() + sample * 7919 % count * bytes,
                bytes);
    benchmark::ClobberMemory();
    ++sample;
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(copy);

const Pictures kCifar{{32, 32}};
const Pictures kMnist{{28, 28}, 1};
const Pictures kPhoto{{375, 500}, 3, true};

OutputFormat floats(Layout layout) {
  return {DataType::F32, layout};
}

Pipeline standard(DataType type, Layout layout) {
  return training_pipeline(
      Augment::Standard, kCifar.field(),
      {.size = {}, .normalize = cifar10_normalize(), .output = {type, layout}});
}

Pipeline photo(Augment augment, std::int64_t size) {
  return training_pipeline(augment, kPhoto.field(),
                           {.size = {size, size},
                            .normalize = imagenet_normalize(),
                            .output = {DataType::U8, Layout::ChannelsLast}});
}

Pipeline resize_to(std::int64_t size, OutputFormat output = {}) {
  return {{RandomHorizontalFlip{}, Resize{size, size}}, output};
}

BENCHMARK_CAPTURE(run, none_u8, kCifar, Pipeline{});
BENCHMARK_CAPTURE(run, none_u8_channels_first, kCifar,
                  Pipeline{{}, {DataType::U8, Layout::ChannelsFirst}});
BENCHMARK_CAPTURE(run, flip_u8, kCifar, Pipeline{{RandomHorizontalFlip{}}, {}});
BENCHMARK_CAPTURE(run, tutorial, kCifar, tutorial_pipeline());
BENCHMARK_CAPTURE(run, tutorial_f32_channels_first, kCifar,
                  resize_to(64, floats(Layout::ChannelsFirst)));
BENCHMARK_CAPTURE(run, standard_u8, kCifar, standard(DataType::U8, Layout::ChannelsLast));
BENCHMARK_CAPTURE(run, standard_f32, kCifar, standard(DataType::F32, Layout::ChannelsLast));
BENCHMARK_CAPTURE(run, standard_f32_channels_first, kCifar,
                  standard(DataType::F32, Layout::ChannelsFirst));
BENCHMARK_CAPTURE(run, standard_bf16, kCifar, standard(DataType::BF16, Layout::ChannelsLast));
BENCHMARK_CAPTURE(run, standard_f16, kCifar, standard(DataType::F16, Layout::ChannelsLast));
BENCHMARK_CAPTURE(run, cifar_to_48, kCifar, resize_to(48));
BENCHMARK_CAPTURE(run, cifar_to_24, kCifar, resize_to(24));
BENCHMARK_CAPTURE(run, mnist_to_64, kMnist, resize_to(64));
BENCHMARK_CAPTURE(run, photo_to_64, kPhoto, resize_to(64));
BENCHMARK_CAPTURE(run, photo_to_224, kPhoto, resize_to(224));
BENCHMARK_CAPTURE(run, photo_random_resized_crop_224, kPhoto, photo(Augment::Standard, 224));
BENCHMARK_CAPTURE(run, photo_center_224, kPhoto, photo(Augment::None, 224));

}  // namespace
}  // namespace lockstep::data

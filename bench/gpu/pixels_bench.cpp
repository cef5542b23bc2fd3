// Pictures on a GPU, beside a plain copy of the same machine: batches of bytes that become numbers,
// and batches made from a set in the GPU's memory. Verified before they are timed.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <string>
#include <vector>

#include "bench/gpu/captured_timing.h"
#include "lockstep/base/error.h"
#include "lockstep/data/sets/array_dataset.h"
#include "lockstep/data/transform/presets.h"
#include "lockstep/data/transform/transform.h"
#include "lockstep/gpu/devices.h"
#include "lockstep/gpu/pictures/device_set.h"
#include "lockstep/gpu/pictures/picture_maker.h"
#include "lockstep/gpu/pictures/pixel_converter.h"
#include "lockstep/gpu/pictures/upload.h"

namespace {

using namespace lockstep;
using namespace lockstep::gpu;

constexpr int kSets = 2;  // of batches, so that none is found in the cache
constexpr std::int64_t kBatch = 4096;
constexpr std::uint64_t kSeed = 1;

std::vector<std::uint8_t> noise(std::size_t count) {
  std::vector<std::uint8_t> bytes(count);
  std::uint32_t state = 1;
  for (auto& byte : bytes) {
    state = state * 1664525U + 1013904223U;
    byte = static_cast<std::uint8_t>(state >> 24);
  }
  return bytes;
}

std::vector<std::byte> on_host(const DeviceMemory& memory, std::size_t bytes) {
  std::vector<std::byte> values(bytes);
  copy_to_host(memory.data(), values.data(), bytes, nullptr);
  wait_for(nullptr);
  return values;
}

void expect_equal(const std::string& what, const std::vector<std::byte>& found,
                  const std::vector<std::byte>& expected) {
  if (found == expected) return;
  fmt::print("pixels_bench: {}: the numbers differ from the CPU's\n", what);
  std::exit(1);
}

/// What a GPU was timed at, beside the copy.
class Table {
 public:
  explicit Table(double bandwidth) : bandwidth_(bandwidth) {
    fmt::print("{:44} {:>9} {:>10} {:>8} {:>9}\n", "", "us", "M img/s", "GB/s", "of copy");
  }
  void add(const std::string& what, double microseconds, double bytes) const {
    const auto rate = bytes / (microseconds * 1e-6);
    fmt::print("{:44} {:9.1f} {:10.1f} {:8.0f} {:7.1f} %\n", what, microseconds,
               static_cast<double>(kBatch) / microseconds, rate * 1e-9, 100 * rate / bandwidth_);
  }

 private:
  double bandwidth_;
};

/// Samples that a transform makes of dense pictures, the first of a batch.
std::vector<std::byte> transformed(const data::Pipeline& pipeline, const data::Field& image,
                                   const std::uint8_t* pixels,
                                   const std::vector<std::int64_t>& samples, std::size_t count) {
  const data::Transform transform(pipeline, image);
  const auto out_bytes = data::bytes_of(transform.output_field());
  const auto bytes = static_cast<std::int64_t>(data::bytes_of(image));
  std::vector<std::byte> out(count * out_bytes);
  data::Scratch scratch;
  for (std::size_t i = 0; i < count; ++i) {
    transform.apply(data::dense_view(pixels + samples[i] * bytes, {image.shape[0], image.shape[1]},
                                     image.shape[2]),
                    {.seed = kSeed, .epoch = 0, .sample = static_cast<std::uint64_t>(samples[i])},
                    scratch, out.data() + i * out_bytes);
  }
  return out;
}

/// How many samples are compared with the CPU's.
constexpr std::size_t kVerified = 256;

void convert(const Table& table, data::Layout layout, DataType type, Stream stream) {
  const data::Field image{"image", DataType::U8, {64, 64, 3}};
  const auto bytes = data::bytes_of(image) * static_cast<std::size_t>(kBatch);
  const auto pixels = noise(bytes);
  const auto normalize = data::cifar10_normalize();
  const PixelConverter converter(normalize, 3, type);
  std::vector<DeviceMemory> in;
  std::vector<DeviceMemory> out;
  for (int set = 0; set < kSets; ++set) {
    in.push_back(on_device(pixels));
    out.emplace_back(bytes * size_of(type));
  }
  const auto run = [&](int set) {
    const auto at = static_cast<std::size_t>(set);
    converter.convert({in[at].as<std::uint8_t>(), layout, kBatch, {64, 64}}, out[at].data(),
                      stream);
  };
  const auto what =
      fmt::format("convert 64x64x3 u8 {} to {}", data::name_of(layout), lockstep::name_of(type));
  run(0);
  wait_for(stream);
  if (layout == data::Layout::ChannelsLast) {
    std::vector<std::int64_t> samples(kVerified);
    std::iota(samples.begin(), samples.end(), 0);
    const auto expected =
        transformed({{normalize}, {type, {}}}, image, pixels.data(), samples, kVerified);
    expect_equal(what, on_host(out[0], expected.size()), expected);
  }
  table.add(what, bench::microseconds_of(stream, kSets, run),
            static_cast<double>(bytes * (1 + size_of(type))));
}

/// A set of pictures on the host and on the GPU.
struct Pictures {
  Pictures(std::int64_t count, data::ImageSize size, std::int64_t channels)
      : field{"image", DataType::U8, {size.height, size.width, channels}},
        samples(count),
        pixels(noise(static_cast<std::size_t>(count) * data::bytes_of(field))),
        on_gpu(data::ArrayDataset({field}, {data::array_at<std::uint8_t>(pixels)}),
               describe_device(0).free_bytes) {}

  /// The samples of a batch, shuffled.
  std::vector<std::int64_t> batch(int number) const {
    std::vector<std::int64_t> batch(kBatch);
    for (std::int64_t i = 0; i < kBatch; ++i) {
      batch[static_cast<std::size_t>(i)] = (i + number * kBatch) * 7919 % samples;
    }
    return batch;
  }

  data::Field field;
  std::int64_t samples;
  std::vector<std::uint8_t> pixels;
  DeviceSet on_gpu;
};

void make(const Table& table, const std::string& what, const Pictures& pictures,
          const data::Pipeline& pipeline, Stream stream) {
  const PicturePlanner planner(pipeline, pictures.field);
  const PictureMaker maker(planner, kBatch);
  const auto bytes = data::bytes_of(planner.output_field()) * static_cast<std::size_t>(kBatch);
  std::vector<DeviceMemory> passes;
  std::vector<DeviceMemory> out;
  for (int set = 0; set < kSets; ++set) {
    std::vector<PicturePass> planned(planner.plan_size(static_cast<std::size_t>(kBatch)));
    planner.plan(pictures.batch(set), kSeed, 0, planned);
    passes.push_back(on_device(planned));
    out.emplace_back(bytes);
  }
  const auto run = [&](int set) {
    const auto at = static_cast<std::size_t>(set);
    maker.make(pictures.on_gpu.values(0), passes[at].as<PicturePass>(), kBatch, out[at].data(),
               stream);
  };
  run(0);
  wait_for(stream);
  const auto expected =
      transformed(pipeline, pictures.field, pictures.pixels.data(), pictures.batch(0), kVerified);
  expect_equal(what, on_host(out[0], expected.size()), expected);
  const auto read = data::bytes_of(pictures.field) + sizeof(PicturePass);
  table.add(what, bench::microseconds_of(stream, kSets, run),
            static_cast<double>(bytes + read * static_cast<std::size_t>(kBatch)));
}

data::Pipeline flip_and_resize() {
  auto pipeline = data::tutorial_pipeline();
  pipeline.output.type = DataType::BF16;
  return pipeline;
}

data::Pipeline crop_and_flip(std::int64_t extent, const data::Normalize& normalize) {
  return {{data::RandomCrop{extent, extent, extent / 8}, data::RandomHorizontalFlip{}, normalize},
          {DataType::BF16, {}}};
}

data::Pipeline resized_crop() {
  return {{data::RandomResizedCrop{.height = 32, .width = 32}, data::RandomHorizontalFlip{},
           data::cifar10_normalize(), data::RandomErasing{}},
          {DataType::BF16, {}}};
}

void plan(const std::string& what, const data::Pipeline& pipeline) {
  using Clock = std::chrono::steady_clock;
  const PicturePlanner planner(pipeline, {"image", DataType::U8, {32, 32, 3}});
  std::vector<std::int64_t> samples(kBatch);
  std::iota(samples.begin(), samples.end(), 0);
  std::vector<PicturePass> passes(planner.plan_size(samples.size()));
  std::vector<double> seconds;
  for (int round = 0; round < 50; ++round) {
    const auto begin = Clock::now();
    planner.plan(samples, kSeed, round, passes);
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::ranges::sort(seconds);
  fmt::print("{:44} {:10.2f} M samples/s on one core\n", what,
             static_cast<double>(kBatch) / seconds[seconds.size() / 2] * 1e-6);
}

void run_on_gpu() {
  const auto device = describe_device(0);
  const bench::OwnStream own;
  const auto stream = own.get();
  const auto bandwidth = bench::copy_bandwidth(stream);
  fmt::print("{}: a copy moves {:.0f} GB/s, read and written; batches of {}\n", device.name,
             bandwidth * 1e-9, kBatch);
  const Table table(bandwidth);
  for (const auto type : {DataType::BF16, DataType::F16, DataType::F32}) {
    convert(table, data::Layout::ChannelsLast, type, stream);
  }
  convert(table, data::Layout::ChannelsFirst, DataType::BF16, stream);
  const Pictures cifar(50000, {32, 32}, 3);
  make(table, "flip, resize 32 to 64, bf16", cifar, flip_and_resize(), stream);
  make(table, "crop 32, flip, normalize, bf16", cifar, crop_and_flip(32, data::cifar10_normalize()),
       stream);
  make(table, "random resized crop 32, flip, erase, bf16", cifar, resized_crop(), stream);
  const Pictures mnist(60000, {28, 28}, 1);
  make(table, "28x28x1: crop 28, flip, normalize, bf16", mnist,
       crop_and_flip(28, data::fashion_mnist_normalize()), stream);
}

}  // namespace

int main() {
  plan("plan: flip, resize 32 to 64", flip_and_resize());
  plan("plan: crop 32, flip, normalize", crop_and_flip(32, data::cifar10_normalize()));
  plan("plan: random resized crop 32, flip, erase", resized_crop());
  if (count_devices() == 0) {
    fmt::print("pixels_bench: there is no GPU here\n");
    return 0;
  }
  try {
    run_on_gpu();
  } catch (const Error& error) {
    fmt::print("{}\n", describe(error));
    return 1;
  }
}

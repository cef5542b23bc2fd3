#include "lockstep/gpu/pictures/pixels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/data/sets/array_dataset.h"
#include "lockstep/gpu/pictures/device_set.h"
#include "lockstep/gpu/pictures/picture_maker.h"
#include "lockstep/gpu/pictures/pixel_converter.h"
#include "tests/gpu/on_device.h"
#include "tests/gpu/picture_cases.h"

namespace lockstep::gpu {
namespace {

using data::Layout;
using ::testing::HasSubstr;

constexpr std::int64_t kAnyMemory = std::int64_t{1} << 30;

TEST(PixelsTest, RefuseWithoutCuda) {
  if (is_built()) GTEST_SKIP() << "this build has CUDA";
  EXPECT_THROW(convert_pixels({}, nullptr), Error);
  EXPECT_THROW(gather_field({}, nullptr), Error);
  EXPECT_THROW(make_pictures({}, nullptr), Error);
}

using PixelsOnDeviceTest = DeviceTest;

/// Pictures channels-first, as a loader packs them on request.
std::vector<std::uint8_t> in_planes(const PictureCase& one) {
  const auto pixels = one.pixels();
  const auto area = one.size.height * one.size.width;
  auto planes = pixels;
  for (std::int64_t i = 0; i < std::ssize(pixels); ++i) {
    const auto picture = i / one.picture_bytes();
    const auto within = i % one.picture_bytes();
    const auto at =
        picture * one.picture_bytes() + within % one.channels * area + within / one.channels;
    planes[static_cast<std::size_t>(at)] = pixels[static_cast<std::size_t>(i)];
  }
  return planes;
}

/// Where pixels and output begin, in bytes behind what memory begins with.
struct Shifts {
  std::size_t in = 0;
  std::size_t out = 0;
};

std::vector<std::byte> converted(const PictureCase& one, Layout layout, Shifts shifts) {
  auto pixels = layout == Layout::ChannelsFirst ? in_planes(one) : one.pixels();
  pixels.insert(pixels.begin(), shifts.in, 0);
  const OnDevice<std::uint8_t> in(pixels);
  const auto numbers = static_cast<std::size_t>(one.set_size * one.picture_bytes());
  const auto bytes = numbers * size_of(one.pipeline.output.type);
  const OnDevice<std::byte> out(shifts.out + bytes + 16);
  std::optional<data::Normalize> normalize;
  if (!one.pipeline.steps.empty()) normalize = std::get<data::Normalize>(one.pipeline.steps[0]);
  const PixelConverter converter(normalize, one.channels, one.pipeline.output.type);
  converter.convert({in.data() + shifts.in, layout, one.set_size, one.size},
                    out.data() + shifts.out, nullptr);
  const auto all = out.values();
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(all[shifts.out + bytes + i], std::byte{0xcd}) << "written beyond the end";
  }
  return {all.begin() + static_cast<std::ptrdiff_t>(shifts.out), all.end() - 16};
}

PictureCase conversion_case(std::uint32_t number) {
  CaseChance chance(number);
  PictureCase one{.size = {chance.extent(50), chance.extent(60)}, .channels = chance.from(1, 5)};
  one.seed = number;
  one.set_size = chance.from(1, 9);
  one.samples.clear();
  for (std::int64_t i = 0; i < one.set_size; ++i) one.samples.push_back(i);
  if (number % 4 != 0) one.pipeline.steps.emplace_back(random_normalize(chance, one.channels));
  one.pipeline.output.type = kPictureTypes[1 + number % 3];
  return one;
}

TEST_F(PixelsOnDeviceTest, ConvertsToTheBitsOfTheTransform) {
  for (std::uint32_t i = 0; i < 150; ++i) {
    const auto one = conversion_case(i);
    const auto size = size_of(one.pipeline.output.type);
    for (const auto layout : {Layout::ChannelsLast, Layout::ChannelsFirst}) {
      ASSERT_EQ(converted(one, layout, {}), one.expected()) << "case " << i << ": " << one.text();
      ASSERT_EQ(converted(one, layout, {1 + i % 7, size}), one.expected())
          << "case " << i << ": " << one.text();
    }
  }
}

TEST_F(PixelsOnDeviceTest, ConvertsManyPicturesWithManyBlocks) {
  for (const std::int64_t channels : {1, 3, 4}) {
    PictureCase one{.size = {64, 64}, .channels = channels};
    CaseChance chance(7);
    one.pipeline = {{random_normalize(chance, channels)}, {DataType::BF16, {}}};
    one.set_size = 37;
    one.samples.clear();
    for (std::int64_t i = 0; i < one.set_size; ++i) one.samples.push_back(i);
    EXPECT_EQ(converted(one, Layout::ChannelsLast, {}), one.expected());
    EXPECT_EQ(converted(one, Layout::ChannelsFirst, {}), one.expected());
  }
}

TEST_F(PixelsOnDeviceTest, RefusesToConvertToBytes) {
  const OnDevice<std::uint8_t> memory(16);
  const PixelConverter converter({}, 1, DataType::U8);
  try {
    converter.convert({memory.data(), Layout::ChannelsLast, 1, {4, 4}}, memory.data(), nullptr);
    FAIL() << "it did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Options);
    EXPECT_STREQ(error.what(), "pixels: expected an output of f16, bf16 or f32, found u8");
  }
}

data::ArrayDataset set_of(const PictureCase& one) {
  return {{one.field()}, {data::array_of(one.pixels())}};
}

std::vector<std::byte> made(const PictureCase& one) {
  const auto host_set = set_of(one);
  const DeviceSet set(host_set, kAnyMemory);
  const PicturePlanner planner(one.pipeline, one.field());
  const PictureMaker maker(planner, std::ssize(one.samples));
  std::vector<PicturePass> passes(planner.plan_size(one.samples.size()));
  planner.plan(one.samples, one.seed, one.epoch, passes);
  const OnDevice<PicturePass> on_device(passes);
  const auto bytes = data::bytes_of(planner.output_field()) * one.samples.size();
  const OnDevice<std::byte> out(bytes + 16);
  maker.make(set.values(0), on_device.data(), std::ssize(one.samples), out.data(), nullptr);
  auto all = out.values();
  for (std::size_t i = 0; i < 16; ++i) {
    EXPECT_EQ(all[bytes + i], std::byte{0xcd}) << "written beyond the end";
  }
  all.resize(bytes);
  return all;
}

TEST_F(PixelsOnDeviceTest, MakesWhatTheTransformMakesWithAnyPipeline) {
  for (std::uint32_t i = 0; i < 600; ++i) {
    const auto one = random_picture_case(i);
    ASSERT_EQ(made(one), one.expected()) << "case " << i << ": " << one.text();
  }
}

TEST_F(PixelsOnDeviceTest, MakesWhatTheTransformMakesWithThePresets) {
  for (const auto& one : preset_cases()) ASSERT_EQ(made(one), one.expected()) << one.text();
}

TEST_F(PixelsOnDeviceTest, MakesWhatTheTransformMakesOfLargePictures) {
  for (const auto& one : large_cases()) ASSERT_EQ(made(one), one.expected()) << one.text();
}

TEST_F(PixelsOnDeviceTest, DividesByWhateverItIsGiven) {
  for (std::uint32_t i = 0; i < 60; ++i) {
    const auto one = extreme_case(i);
    ASSERT_EQ(converted(one, Layout::ChannelsLast, {}), one.expected()) << "case " << i;
    ASSERT_EQ(made(one), one.expected()) << "case " << i;
  }
}

TEST_F(PixelsOnDeviceTest, MakesTheSameBatchAgainAndAgain) {
  // More blocks than fit at once, so that they share multiprocessors in another order each time.
  PictureCase one{.size = {32, 32}, .set_size = 100};
  one.pipeline = {{data::RandomCrop{32, 32, 4}, data::RandomHorizontalFlip{}, data::Resize{64, 64},
                   data::cifar10_normalize()},
                  {DataType::BF16, {}}};
  one.samples.clear();
  for (std::int64_t i = 0; i < 5000; ++i) one.samples.push_back(i * 7919 % one.set_size);
  const auto expected = one.expected();
  for (int i = 0; i < 3; ++i) ASSERT_EQ(made(one), expected);
}

TEST_F(PixelsOnDeviceTest, MakesNoMoreThanWasAnnounced) {
  const PictureCase one{.size = {8, 8}};
  const PicturePlanner planner(one.pipeline, one.field());
  const PictureMaker maker(planner, 2);
  try {
    maker.make(nullptr, nullptr, 3, nullptr, nullptr);
    FAIL() << "it did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Options);
    EXPECT_STREQ(error.what(), "pictures: expected at most 2 samples, found 3");
  }
}

TEST_F(PixelsOnDeviceTest, RefusesToMakeWholeNumbers) {
  MakePictures call;
  call.samples = 1;
  call.type = DataType::I64;
  try {
    make_pictures(call, nullptr);
    FAIL() << "it did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Options);
    EXPECT_THAT(error.what(), HasSubstr("expected an output of u8, f16, bf16 or f32, found i64"));
  }
}

/// A set with a field of this many bytes, at random, and a number for each sample.
data::ArrayDataset bytes_set(std::int64_t bytes, std::int64_t samples) {
  std::vector<std::uint8_t> values(static_cast<std::size_t>(bytes * samples));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<std::uint8_t>(philox(3, {static_cast<std::uint32_t>(i)})[0]);
  }
  std::vector<std::int64_t> labels(static_cast<std::size_t>(samples));
  for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int64_t>(i) << 33;
  return {{{"values", DataType::U8, {bytes}}, {"label", DataType::I64}},
          {data::array_of(values), data::array_of(labels)}};
}

TEST_F(PixelsOnDeviceTest, GathersTheValuesOfSamples) {
  const std::vector<std::int64_t> samples{4, 1, 1, 30, 0, 29};
  for (const std::int64_t bytes : {1, 3, 4, 8, 12, 16, 31, 48, 1000}) {
    const auto host_set = bytes_set(bytes, 31);
    const DeviceSet set(host_set, kAnyMemory);
    const OnDevice<std::int64_t> indexes(samples);
    const OnDevice<std::uint8_t> values(samples.size() * static_cast<std::size_t>(bytes));
    const OnDevice<std::int64_t> labels(samples.size());
    set.gather(0, indexes.data(), std::ssize(samples), values.data(), nullptr);
    set.gather(1, indexes.data(), std::ssize(samples), labels.data(), nullptr);
    data::Sample sample(host_set.fields());
    const auto found = values.values();
    const auto found_labels = labels.values();
    for (std::size_t i = 0; i < samples.size(); ++i) {
      host_set.sample(samples[i], sample);
      EXPECT_EQ(std::memcmp(found.data() + i * static_cast<std::size_t>(bytes), sample.data(0),
                            static_cast<std::size_t>(bytes)),
                0)
          << bytes << " bytes, sample " << samples[i];
      EXPECT_EQ(found_labels[i], samples[i] << 33);
    }
  }
}

TEST_F(PixelsOnDeviceTest, KeepsNoSetThatIsLargerThanItMay) {
  const auto host_set = bytes_set(1000, 10);
  try {
    const DeviceSet set(host_set, 5000);
    FAIL() << "it did not throw";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Options);
    EXPECT_EQ(error.hint(), "leave --data-on-device out");
  }
}

}  // namespace
}  // namespace lockstep::gpu

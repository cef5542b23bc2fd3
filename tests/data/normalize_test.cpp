#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/data/transform/presets.h"
#include "tests/data/transform_support.h"

namespace lockstep::data {
namespace {

using plain::Fixture;
using plain::Picture;

/// A picture with every level in every channel, at another place in each.
Picture all_levels(std::int64_t channels) {
  Picture picture({16, 16}, channels);
  for (int i = 0; i < 256; ++i) {
    for (std::int64_t c = 0; c < channels; ++c) {
      picture.at(i / 16, i % 16, c) = static_cast<std::uint8_t>(i + 5 * c);
    }
  }
  return picture;
}

template <typename T>
void expect_levels(const Normalize& normalize, std::size_t channel,
                   const std::vector<T>& expected) {
  const auto picture = all_levels(static_cast<std::int64_t>(normalize.mean.size()));
  const Transform transform({{normalize}, {kTypeOf<T>, Layout::ChannelsFirst}}, picture.field());
  const auto bytes = plain::apply(transform, picture);
  for (std::size_t i = 0; i < 256; ++i) {
    const auto level = static_cast<std::uint8_t>(i + 5 * channel);
    EXPECT_EQ(
        std::memcmp(bytes.data() + (channel * 256 + i) * sizeof(T), &expected[level], sizeof(T)), 0)
        << "channel " << channel << ", level " << int{level};
  }
}

TEST(NormalizeTest, HasTheBitsOfTorchvision) {
  Fixture fixture("normalize.bin");
  for (const auto& normalize : {imagenet_normalize(), cifar10_normalize(), mnist_normalize()}) {
    for (std::size_t channel = 0; channel < normalize.mean.size(); ++channel) {
      expect_levels(normalize, channel, fixture.read<float>(256));
      expect_levels(normalize, channel, fixture.read<Float16>(256));
      expect_levels(normalize, channel, fixture.read<BFloat16>(256));
    }
  }
}

TEST(NormalizeTest, DividesByWhateverItIsGiven) {
  // Deviations whose quotients cannot all be had by multiplying, some with extreme results.
  const auto picture = all_levels(1);
  for (std::uint32_t i = 0; i < 300; ++i) {
    const auto words = philox(11, {i});
    const auto exponent = 100 + words[2] % 60;
    const auto deviation = std::bit_cast<float>((exponent << 23) | (words[0] >> 9));
    const Normalize normalize{{unit_float(words[1])}, {i == 0 ? 1e-38F : deviation}};
    const Pipeline pipeline{{normalize}, {DataType::F32, Layout::ChannelsLast}};
    const Transform transform(pipeline, picture.field());
    EXPECT_EQ(plain::apply(transform, picture), plain::reference(pipeline, picture, {}))
        << deviation;
  }
}

TEST(NormalizeTest, OfNothingIsAShareOf255) {
  const auto picture = all_levels(1);
  const Transform transform({{}, {DataType::F32, Layout::ChannelsLast}}, picture.field());
  const auto bytes = plain::apply(transform, picture);
  float value = 0;
  std::memcpy(&value, bytes.data() + 51 * sizeof(float), sizeof(float));
  EXPECT_EQ(value, 0.2F);
}

TEST(NormalizeTest, IsLeftToTheDeviceWithBytes) {
  const auto picture = all_levels(3);
  const Transform bytes({{cifar10_normalize()}, {}}, picture.field());
  EXPECT_EQ(bytes.left_to_device(), cifar10_normalize());
  EXPECT_EQ(plain::apply(bytes, picture), plain::as_bytes(picture.pixels));
  const Transform floats({{cifar10_normalize()}, {DataType::F32, Layout::ChannelsLast}},
                         picture.field());
  EXPECT_EQ(floats.left_to_device(), std::nullopt);
}

}  // namespace
}  // namespace lockstep::data

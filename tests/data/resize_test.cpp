#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/transform_support.h"

namespace lockstep::data {
namespace {

using testing::Fixture;
using testing::Picture;

std::vector<Picture> read_sources(Fixture& fixture) {
  std::vector<Picture> sources;
  for (auto count = fixture.number(); count > 0; --count) {
    const auto shape = fixture.read<std::int32_t>(3);
    sources.push_back(fixture.picture({shape[0], shape[1]}, shape[2]));
  }
  return sources;
}

TEST(ResizeTest, HasTheBitsOfPillow) {
  Fixture fixture("resize.bin");
  const auto sources = read_sources(fixture);
  const auto count = fixture.number();
  EXPECT_GT(count, 30);
  for (int i = 0; i < count; ++i) {
    const auto& source = sources[static_cast<std::size_t>(fixture.number())];
    const auto size = fixture.read<std::int32_t>(2);
    const auto expected = fixture.picture({size[0], size[1]}, source.channels);
    const Transform transform({{Resize{size[0], size[1]}}, {}}, source.field());
    EXPECT_EQ(testing::apply(transform, source), testing::as_bytes(expected.pixels))
        << source.size.height << 'x' << source.size.width << 'x' << source.channels << " to "
        << size[0] << 'x' << size[1];
    EXPECT_EQ(testing::resized(source, expected.size).pixels, expected.pixels)
        << "the reference of these tests";
  }
}

TEST(ResizeTest, OfACropHasTheBitsOfPillow) {
  Fixture fixture("resized_crop.bin");
  const auto sources = read_sources(fixture);
  for (auto count = fixture.number(); count > 0; --count) {
    const auto box = fixture.read<std::int32_t>(4);
    const auto& source = sources[static_cast<std::size_t>(fixture.number())];
    const auto size = fixture.read<std::int32_t>(2);
    const auto expected = fixture.picture({size[0], size[1]}, source.channels);
    // A view of the crop, whose rows stand in the rows of a larger picture.
    const auto view = part_of(source.view(), {box[0], box[1], {box[2], box[3]}});
    const Transform transform({{Resize{size[0], size[1]}}, {}}, source.any_size_field());
    std::vector<std::byte> out(expected.pixels.size());
    Scratch scratch;
    transform.apply(view, {}, scratch, out.data());
    EXPECT_EQ(out, testing::as_bytes(expected.pixels)) << box[2] << 'x' << box[3];
  }
}

TEST(ResizeTest, HasTheBitsOfTheReferenceForManySizes) {
  Scratch scratch;
  for (std::uint32_t i = 0; i < 400; ++i) {
    const auto words = philox(5, {i});
    const ImageSize in{1 + words[0] % 60, 1 + words[1] % 70};
    const ImageSize out{1 + words[2] % 70, 1 + words[3] % 60};
    const auto channels = std::int64_t{1 + i % 5};
    const auto source = testing::noise(in, channels, i);
    const Transform transform({{Resize{out.height, out.width}}, {}}, source.field());
    std::vector<std::byte> result(bytes_of(transform.output_field()));
    transform.apply(source.view(), {}, scratch, result.data());
    ASSERT_EQ(result, testing::as_bytes(testing::resized(source, out).pixels))
        << in.height << 'x' << in.width << 'x' << channels << " to " << out.height << 'x'
        << out.width;
  }
}

TEST(ResizeTest, KeepsEveryLevelOfAnEvenPicture) {
  // Weights that do not sum to one would darken or brighten.
  for (const std::int64_t size : {1, 3, 7, 33, 64, 200}) {
    for (const int level : {0, 1, 127, 128, 254, 255}) {
      Picture source({31, 29}, 3);
      std::fill(source.pixels.begin(), source.pixels.end(), level);
      const Transform transform({{Resize{size, size + 1}}, {}}, source.field());
      const auto result = testing::apply(transform, source);
      EXPECT_THAT(result, ::testing::Each(static_cast<std::byte>(level))) << size;
    }
  }
}

TEST(ResizeTest, OfLargePicturesHasTheBitsOfTheReference) {
  const auto source = testing::noise({375, 500}, 3, 9);
  const Transform transform({{Resize{64, 61}}, {}}, source.field());
  EXPECT_EQ(testing::apply(transform, source),
            testing::as_bytes(testing::resized(source, {64, 61}).pixels));
}

TEST(ResizeTest, ComputesOnlyWhatACropLeavesOfAVeryLongPicture) {
  // All of it would have 64 x 1,280,000 pixels.
  const auto source = testing::noise({1, 20000}, 3, 10);
  const Transform transform({{ResizeShorter{64}, CenterCrop{16, 16}}, {}}, source.any_size_field());
  const auto result = testing::apply(transform, source);
  EXPECT_EQ(result.size(), 16U * 16 * 3);
  // Enlarged 64 times, the middle 16 columns lie between two or three pixels of the source.
  const auto middle = source.at(0, 9999, 0);
  const auto next = source.at(0, 10000, 0);
  EXPECT_THAT(std::to_integer<int>(result[0]),
              ::testing::AllOf(::testing::Ge(std::min(middle, next)),
                               ::testing::Le(std::max(middle, next))));
}

}  // namespace
}  // namespace lockstep::data

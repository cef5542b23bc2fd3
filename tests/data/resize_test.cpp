#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <new>

#include "lockstep/data/transform/resize_plan.h"
#include "tests/data/transform_support.h"

namespace {

/// What this thread's `new` does: tests tell how much memory was asked for, or let it run out.
struct Allocations {
  std::size_t largest = 0;
  int left = std::numeric_limits<int>::max();
};
thread_local Allocations allocations;

}  // namespace

// Not inlined, or GCC sees `new` freed by `free`, and warns.
[[gnu::noinline]] void* operator new(std::size_t size) {
  allocations.largest = std::max(allocations.largest, size);
  if (allocations.left == 0) throw std::bad_alloc();
  --allocations.left;
  if (void* const memory = std::malloc(std::max<std::size_t>(size, 1))) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace lockstep::data {
namespace {

using plain::Fixture;
using plain::Picture;

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
    EXPECT_EQ(plain::apply(transform, source), plain::as_bytes(expected.pixels))
        << source.size.height << 'x' << source.size.width << 'x' << source.channels << " to "
        << size[0] << 'x' << size[1];
    EXPECT_EQ(plain::resized(source, expected.size).pixels, expected.pixels)
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
    EXPECT_EQ(out, plain::as_bytes(expected.pixels)) << box[2] << 'x' << box[3];
  }
}

TEST(ResizeTest, HasTheBitsOfTheReferenceForManySizes) {
  Scratch scratch;
  for (std::uint32_t i = 0; i < 400; ++i) {
    const auto words = philox(5, {i});
    const ImageSize in{1 + words[0] % 60, 1 + words[1] % 70};
    const ImageSize out{1 + words[2] % 70, 1 + words[3] % 60};
    const auto channels = std::int64_t{1 + i % 5};
    const auto source = plain::noise(in, channels, i);
    const Transform transform({{Resize{out.height, out.width}}, {}}, source.field());
    std::vector<std::byte> result(bytes_of(transform.output_field()));
    transform.apply(source.view(), {}, scratch, result.data());
    ASSERT_EQ(result, plain::as_bytes(plain::resized(source, out).pixels))
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
      const auto result = plain::apply(transform, source);
      EXPECT_THAT(result, ::testing::Each(static_cast<std::byte>(level))) << size;
    }
  }
}

TEST(ResizeTest, OfLargePicturesHasTheBitsOfTheReference) {
  const auto source = plain::noise({375, 500}, 3, 9);
  const Transform transform({{Resize{64, 61}}, {}}, source.field());
  EXPECT_EQ(plain::apply(transform, source),
            plain::as_bytes(plain::resized(source, {64, 61}).pixels));
}

TEST(ResizeTest, ComputesOnlyWhatACropLeavesOfAVeryLongPicture) {
  // All of it would have 64 x 1,280,000 pixels.
  const auto source = plain::noise({1, 20000}, 3, 10);
  const Transform transform({{ResizeShorter{64}, CenterCrop{16, 16}}, {}}, source.any_size_field());
  allocations = {};
  const auto result = plain::apply(transform, source);
  EXPECT_LT(allocations.largest, 100'000U) << "not even one row of all columns";
  // The middle is made of the pixels around it alone, and 1/64 has no rounding.
  const auto around = plain::cropped(source, {0, 9990, {1, 20}});
  const auto expected = plain::cropped(plain::resized(around, {64, 1280}), {24, 632, {16, 16}});
  EXPECT_EQ(result, plain::as_bytes(expected.pixels));
}

TEST(ResizePlanTest, HasNoKeyWhereTheMemoryRanOut) {
  const ResizeKey small{.in = 4, .out = 8, .first = 0, .count = 8, .channels = 1};
  const ResizeKey large{.in = 90, .out = 40, .first = 0, .count = 40, .channels = 1};
  const auto expect_no_key = [&](auto plan, const auto& make) {
    int failures = 0;
    for (bool is_made = false; !is_made;) {
      FilterTaps taps;
      make(small, taps, plan);
      // Other memory each time, or the second attempt would have that of the first.
      plan = decltype(plan)(plan);
      allocations.left = failures;
      try {
        make(large, taps, plan);
        is_made = true;
      } catch (const std::bad_alloc&) {
        ++failures;
      }
      allocations.left = std::numeric_limits<int>::max();
      ASSERT_EQ(plan.key, is_made ? large : ResizeKey{}) << failures << " allocations";
    }
    EXPECT_GT(failures, 2);
  };
  expect_no_key(RowPlan{}, plan_rows);
  expect_no_key(ColumnPlan{}, plan_columns);
}

}  // namespace
}  // namespace lockstep::data

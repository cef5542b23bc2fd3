#include "lockstep/data/transform/transform.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <thread>

#include "lockstep/data/transform/presets.h"
#include "lockstep/data/transform/vector_targets.h"
#include "tests/data/transform_support.h"
// Highway comes after the choice of targets.
#include <hwy/highway.h>
#include <hwy/targets.h>

namespace lockstep::data {
namespace {

using plain::GuardedBytes;
using plain::Picture;

constexpr std::array kTypes{DataType::U8, DataType::F16, DataType::BF16, DataType::F32};
constexpr std::array kLayouts{Layout::ChannelsLast, Layout::ChannelsFirst};

/// Numbers for one random case.
class Chance {
 public:
  explicit Chance(std::uint32_t number) : number_(number) {}
  std::int64_t from(std::int64_t first, std::int64_t last) {
    const auto count = static_cast<std::uint32_t>(last - first + 1);
    return first + below(count, philox(77, {number_, next_++})[0]);
  }

 private:
  std::uint32_t number_;
  std::uint32_t next_ = 0;
};

struct Case {
  Picture picture;
  Pipeline pipeline;
  Draws draws;
  std::int64_t gap = 0;  ///< bytes between the rows of the picture

  std::int64_t row_bytes() const { return picture.size.width * picture.channels; }
  std::int64_t stride() const { return row_bytes() + gap; }

  std::size_t bytes() const {
    return static_cast<std::size_t>((picture.size.height - 1) * stride() + row_bytes());
  }

  /// The picture in memory of `bytes()`, with its gaps.
  ImageView view_in(std::uint8_t* memory) const {
    for (std::int64_t y = 0; y < picture.size.height; ++y) {
      std::memcpy(memory + y * stride(), picture.pixels.data() + y * row_bytes(),
                  static_cast<std::size_t>(row_bytes()));
    }
    return {memory, picture.size, picture.channels, static_cast<std::ptrdiff_t>(stride())};
  }

  std::vector<std::byte> apply(Scratch& scratch) const {
    const Transform transform(pipeline, picture.field());
    std::vector<std::uint8_t> in(bytes(), 0xa5);
    std::vector<std::byte> out(bytes_of(transform.output_field()));
    transform.apply(view_in(in.data()), draws, scratch, out.data());
    return out;
  }
};

/// Some pictures have rows that are longer than what is converted at a time, 4096 bytes.
std::int64_t random_width(Chance& chance, bool is_wide, std::int64_t channels) {
  return is_wide ? 4096 / channels + chance.from(1, 100) : chance.from(1, 70);
}

/// Random crops, flips and resizes in any order, an output of any kind.
Case random_case(std::uint32_t number) {
  Chance chance(number);
  const auto channels = number % 3 == 0 ? 1 : number % 3 == 1 ? 3 : chance.from(2, 6);
  const bool is_wide = number % 20 == 7;
  ImageSize size{chance.from(1, is_wide ? 4 : 40), random_width(chance, is_wide, channels)};
  Case result{plain::noise(size, channels, number), {}, {.seed = 5, .epoch = 1, .sample = number}};
  result.gap = chance.from(0, 2) == 0 ? chance.from(1, 40) : 0;
  auto& steps = result.pipeline.steps;
  for (auto count = chance.from(0, 5); count > 0; --count) {
    const ImageSize next{chance.from(1, 40), chance.from(1, 70)};
    const auto padding = chance.from(0, 9);
    switch (chance.from(0, 5)) {
      case 0:
        steps.emplace_back(RandomHorizontalFlip{});
        break;
      case 1:
        size = {std::min(next.height, size.height + 2 * padding),
                std::min(random_width(chance, is_wide, channels), size.width + 2 * padding)};
        steps.emplace_back(RandomCrop{size.height, size.width, padding});
        break;
      case 2:
        size = {std::min(next.height, size.height),
                std::min(random_width(chance, is_wide, channels), size.width)};
        steps.emplace_back(CenterCrop{size.height, size.width});
        break;
      case 3:
        size = next;
        steps.emplace_back(Resize{size.height, size.width});
        break;
      case 4:
        size = next;
        steps.emplace_back(RandomResizedCrop{.height = size.height, .width = size.width});
        break;
      default:
        // One dimension alone.
        size.width = next.width;
        steps.emplace_back(Resize{size.height, size.width});
    }
  }
  if (chance.from(0, 1) == 1) {
    Normalize normalize;
    for (std::int64_t c = 0; c < channels; ++c) {
      normalize.mean.push_back(static_cast<float>(chance.from(0, 99)) / 100.0F);
      normalize.deviation.push_back(static_cast<float>(chance.from(1, 99)) / 100.0F);
    }
    steps.emplace_back(normalize);
  }
  if (chance.from(0, 2) == 2) steps.emplace_back(RandomErasing{.probability = 0.9});
  result.pipeline.output = {kTypes[static_cast<std::size_t>(chance.from(0, 3))],
                            kLayouts[static_cast<std::size_t>(chance.from(0, 1))]};
  return result;
}

std::string text_of(const Case& one) {
  auto text = describe(one.picture.field()) + ", gaps of " + std::to_string(one.gap);
  for (const auto& step : one.pipeline.steps) text += ", " + std::string(name_of(step));
  return text + " to " + std::string(lockstep::name_of(one.pipeline.output.type)) + ' ' +
         std::string(name_of(one.pipeline.output.layout));
}

TEST(TransformTest, DoesWhatTheReferenceDoesForAnyPipeline) {
  Scratch scratch;
  for (std::uint32_t i = 0; i < 1500; ++i) {
    const auto one = random_case(i);
    ASSERT_EQ(one.apply(scratch), plain::reference(one.pipeline, one.picture, one.draws))
        << "case " << i << ": " << text_of(one);
  }
}

TEST(TransformTest, NeverTouchesWhatLiesBesideAPictureOrItsOutput) {
  for (std::uint32_t i = 0; i < 600; ++i) {
    const auto one = random_case(i);
    const Transform transform(one.pipeline, one.picture.field());
    const auto expected = plain::reference(one.pipeline, one.picture, one.draws);
    for (const auto edge : {GuardedBytes::Edge::Front, GuardedBytes::Edge::Back}) {
      const GuardedBytes in(one.bytes(), edge);
      const GuardedBytes out(expected.size(), edge);
      Scratch scratch;
      transform.apply(one.view_in(reinterpret_cast<std::uint8_t*>(in.data())), one.draws, scratch,
                      out.data());
      ASSERT_EQ(std::memcmp(out.data(), expected.data(), expected.size()), 0) << text_of(one);
    }
  }
}

TEST(TransformTest, WritesToAnyAddress) {
  const auto picture = plain::noise({9, 21}, 3, 1);
  for (const auto type : kTypes) {
    for (const auto layout : kLayouts) {
      const Pipeline pipeline{{RandomHorizontalFlip{1}, cifar10_normalize(), RandomErasing{1}},
                              {type, layout}};
      const Transform transform(pipeline, picture.field());
      const auto expected = plain::reference(pipeline, picture, {});
      for (std::size_t shift = 0; shift < 9; ++shift) {
        std::vector<std::byte> out(expected.size() + 32, std::byte{0x5a});
        Scratch scratch;
        transform.apply(picture.view(), {}, scratch, out.data() + 8 + shift);
        ASSERT_EQ(std::memcmp(out.data() + 8 + shift, expected.data(), expected.size()), 0);
        EXPECT_EQ(out[7 + shift], std::byte{0x5a});
        EXPECT_EQ(out[8 + shift + expected.size()], std::byte{0x5a});
      }
    }
  }
}

TEST(TransformTest, GivesTheSameBitsWithEveryVectorUnit) {
  std::vector<std::vector<std::byte>> first;
  int units = 0;
  // Highway also names units that the kernels are not compiled for.
  for (auto left = hwy::SupportedTargets() & HWY_TARGETS; left != 0; left &= left - 1, ++units) {
    // Highway takes the best of a set; a single one leaves it no choice.
    hwy::SetSupportedTargetsForTest(left & -left);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
    for (std::uint32_t i = 0; i < 300; ++i) {
      const auto one = random_case(i);
      Scratch scratch;
      const auto out = one.apply(scratch);
      if (units == 0) {
        first.push_back(out);
      } else {
        ASSERT_EQ(out, first[i]) << hwy::TargetName(left & -left) << ", " << text_of(one);
      }
    }
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  RecordProperty("units", units);
  EXPECT_GE(units, std::min(2, std::popcount(static_cast<std::uint64_t>(HWY_TARGETS))))
      << "where more than one is compiled, at least the plain code and one vector unit";
}

TEST(TransformTest, IsSharedByThreadsWithAScratchEach) {
  const auto picture = plain::noise({32, 32}, 3, 2);
  const Transform transform(tutorial_pipeline(), picture.field());
  std::vector<std::vector<std::byte>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) result = plain::apply(transform, picture, {.sample = 9});
    });
  }
  for (auto& thread : threads) thread.join();
  for (const auto& result : results) {
    EXPECT_EQ(result, plain::reference(tutorial_pipeline(), picture, {.sample = 9}));
  }
}

TEST(TransformTest, ReadsRowsThatStandApart) {
  const auto large = plain::noise({50, 60}, 3, 3);
  const auto view = part_of(large.view(), {7, 11, {32, 32}});
  const auto picture = plain::cropped(large, {7, 11, {32, 32}});
  for (const std::uint64_t sample : {1, 2, 3, 4}) {
    for (const auto& pipeline : {Pipeline{}, tutorial_pipeline()}) {
      const Transform transform(pipeline, picture.field());
      std::vector<std::byte> out(bytes_of(transform.output_field()));
      Scratch scratch;
      transform.apply(view, {.sample = sample}, scratch, out.data());
      EXPECT_EQ(out, plain::reference(pipeline, picture, {.sample = sample}));
    }
  }
}

TEST(TransformTest, ErasesBytesToTheMean) {
  const Picture picture({40, 40}, 1);
  const Pipeline pipeline{{Normalize{{0.1307F}, {0.3081F}}, RandomErasing{.probability = 1}}, {}};
  const auto out = plain::apply(Transform(pipeline, picture.field()), picture);
  EXPECT_THAT(out, ::testing::Contains(std::byte{33})) << "0.1307 * 255 = 33.3";
}

TEST(TransformTest, TellsWhatItWrites) {
  const Field field{"photo", DataType::U8, {0, 0, 3}, FieldKind::AnySizeImage};
  const Transform last({{Resize{10, 20}}, {DataType::BF16, Layout::ChannelsLast}}, field);
  EXPECT_EQ(last.output_field(), (Field{"photo", DataType::BF16, {10, 20, 3}}));
  const Transform first({{Resize{10, 20}}, {DataType::U8, Layout::ChannelsFirst}}, field);
  EXPECT_EQ(first.output_field(), (Field{"photo", DataType::U8, {3, 10, 20}}));
}

TEST(WindowTest, ShowsNothingAfterACropIntoThePadding) {
  auto window = Window::over({1, 1});
  window.crop({-4, -4, {2, 2}});
  EXPECT_TRUE(window.is_empty());
  EXPECT_EQ(window.size, (ImageSize{2, 2}));
}

TEST(WindowTest, DoesNotShowAgainWhatACropCutOff) {
  auto window = Window::over({10, 10});
  window.crop({2, 2, {4, 4}});
  window.crop({-3, -3, {10, 10}});
  EXPECT_EQ(window.visible, (Box{2, 2, {4, 4}}));
  EXPECT_EQ(window.top, 3);
  EXPECT_EQ(window.left, 3);
}

}  // namespace
}  // namespace lockstep::data

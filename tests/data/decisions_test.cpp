#include "lockstep/data/transform/decisions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>

namespace lockstep::data {

void PrintTo(const StepDecision& decision, std::ostream* out) {
  *out << (decision.applies ? "applies" : "does not apply") << ", box at " << decision.box.top
       << ',' << decision.box.left << " of " << decision.box.size.height << 'x'
       << decision.box.size.width << ", then " << decision.size.height << 'x'
       << decision.size.width;
}

namespace {

Draws draws_of(std::uint64_t sample) {
  return {.seed = 42, .epoch = 3, .sample = sample};
}

StepDecision decide_one(const Step& step, ImageSize size, std::uint64_t sample) {
  return decide({{step}, {}}, size, draws_of(sample))[0];
}

constexpr int kSamples = 20000;

TEST(DecisionsTest, FlipAsOftenAsTheProbabilitySays) {
  for (const double probability : {0.0, 0.2, 0.5, 1.0}) {
    int flips = 0;
    for (int i = 0; i < kSamples; ++i) {
      flips += decide_one(RandomHorizontalFlip{probability}, {32, 32}, i).applies ? 1 : 0;
    }
    // Five deviations of the binomial distribution; none where the outcome is certain.
    const auto limit = 5 * std::sqrt(kSamples * probability * (1 - probability));
    EXPECT_NEAR(flips, kSamples * probability, limit) << probability;
  }
}

TEST(DecisionsTest, CropAtEveryPlaceEquallyOften) {
  std::map<std::pair<std::int64_t, std::int64_t>, int> places;
  for (int i = 0; i < kSamples; ++i) {
    const auto decision = decide_one(RandomCrop{32, 30, 2}, {32, 30}, i);
    EXPECT_EQ(decision.size, (ImageSize{32, 30}));
    ++places[{decision.box.top, decision.box.left}];
  }
  ASSERT_EQ(places.size(), 25U) << "from -2 to 2 in both directions";
  EXPECT_EQ(places.begin()->first, (std::pair<std::int64_t, std::int64_t>{-2, -2}));
  EXPECT_EQ(places.rbegin()->first, (std::pair<std::int64_t, std::int64_t>{2, 2}));
  const double expected = kSamples / 25.0;
  double chi_square = 0;
  for (const auto& [place, count] : places) {
    chi_square += (count - expected) * (count - expected) / expected;
  }
  EXPECT_LT(chi_square, 52) << "0.1 % of draws from 24 degrees of freedom lie above 51.2";
}

TEST(DecisionsTest, ResizedCropsKeepToTheirAreaAndRatio) {
  const ImageSize size{375, 500};
  double log_ratios = 0;
  double shares = 0;
  for (int i = 0; i < kSamples; ++i) {
    const auto [applies, box, after] = decide_one(RandomResizedCrop{224, 200}, size, i);
    EXPECT_TRUE(applies);
    EXPECT_EQ(after, (ImageSize{224, 200}));
    EXPECT_GE(box.top, 0);
    EXPECT_GE(box.left, 0);
    EXPECT_LE(box.top + box.size.height, size.height);
    EXPECT_LE(box.left + box.size.width, size.width);
    const auto height = static_cast<double>(box.size.height);
    const auto width = static_cast<double>(box.size.width);
    // Rounding both extents moves area and ratio by about one part in a hundred.
    EXPECT_GE(height * width / (375.0 * 500), 0.08 * 0.98);
    EXPECT_GE(width / height, 0.75 * 0.98);
    EXPECT_LE(width / height, 4.0 / 3 * 1.02);
    log_ratios += std::log(width / height) / kSamples;
    shares += height * width / (375.0 * 500) / kSamples;
  }
  // Large upright boxes do not fit and are drawn again. These are the means of 20,000 boxes that
  // torchvision 0.14 draws.
  EXPECT_NEAR(log_ratios, 0.0312, 0.006);
  EXPECT_NEAR(shares, 0.432, 0.01);
}

TEST(DecisionsTest, RatiosAreLogUniform) {
  // A fixed area, small enough that every box fits.
  std::array<int, 4> quarters{};
  const RandomResizedCrop step{8, 8, 0.05, 0.05, 0.25, 4.0};
  for (int i = 0; i < kSamples; ++i) {
    const auto box = decide_one(step, {2000, 2000}, i).box;
    const auto ratio = static_cast<double>(box.size.width) / static_cast<double>(box.size.height);
    const auto quarter = (std::log2(ratio) + 2) / 4 * 4;
    ++quarters[static_cast<std::size_t>(std::clamp(quarter, 0.0, 3.0))];
  }
  for (const auto count : quarters) EXPECT_NEAR(count, kSamples / 4, 400);
}

TEST(DecisionsTest, ResizedCropsFallBackToTheCentreWhereNoBoxFits) {
  const auto decision = decide_one(RandomResizedCrop{8, 8, 0.9, 1.0}, {10, 1000}, 0);
  EXPECT_EQ(decision.box, (Box{0, 493, {10, 13}})) << "the widest box of ratio 4/3, in the middle";
  const auto upright = decide_one(RandomResizedCrop{8, 8, 0.9, 1.0}, {1000, 10}, 0);
  EXPECT_EQ(upright.box, (Box{493, 0, {13, 10}}));
  const auto point = decide_one(RandomResizedCrop{8, 8}, {1, 1}, 0);
  EXPECT_EQ(point.box, (Box{0, 0, {1, 1}}));
}

TEST(DecisionsTest, ErasingsStayWithinThePicture) {
  int erased = 0;
  double shares = 0;
  for (int i = 0; i < kSamples; ++i) {
    const auto decision = decide_one(RandomErasing{.probability = 0.25}, {32, 40}, i);
    if (!decision.applies) continue;
    ++erased;
    const auto& box = decision.box;
    EXPECT_GE(std::min(box.top, box.left), 0);
    EXPECT_LE(box.top + box.size.height, 32);
    EXPECT_LE(box.left + box.size.width, 40);
    EXPECT_LT(box.size.height, 32);
    EXPECT_LT(box.size.width, 40);
    shares += static_cast<double>(box.size.height * box.size.width) / (32.0 * 40);
  }
  EXPECT_NEAR(erased, kSamples / 4, 310);
  EXPECT_NEAR(shares / erased, 0.1709, 0.006) << "torchvision's mean";
}

TEST(DecisionsTest, CentreCropsRoundAsPythonDoes) {
  const auto top_of = [](std::int64_t height) {
    return decide_one(CenterCrop{10, 10}, {height, 10}, 0).box.top;
  };
  EXPECT_EQ(top_of(10), 0);
  EXPECT_EQ(top_of(11), 0) << "round(0.5)";
  EXPECT_EQ(top_of(13), 2) << "round(1.5)";
  EXPECT_EQ(top_of(15), 2) << "round(2.5)";
  EXPECT_EQ(top_of(17), 4) << "round(3.5)";
}

TEST(DecisionsTest, TheShorterSideDecidesAboutTheLonger) {
  EXPECT_EQ(with_shorter_side({375, 500}, 256), (ImageSize{256, 341}));
  EXPECT_EQ(with_shorter_side({500, 375}, 256), (ImageSize{341, 256}));
  EXPECT_EQ(with_shorter_side({7, 7}, 3), (ImageSize{3, 3}));
}

TEST(DecisionsTest, OfOneStepDoNotDependOnTheOthers) {
  const Step flip = RandomHorizontalFlip{};
  const Step crop = RandomCrop{32, 32, 4};
  const Step resized = RandomResizedCrop{32, 32};
  int flips = 0;
  int flips_of_high_crops = 0;
  int high_crops = 0;
  for (int i = 0; i < kSamples; ++i) {
    const auto after_crop = decide({{crop, flip}, {}}, {32, 32}, draws_of(i));
    const auto after_resized = decide({{resized, flip}, {}}, {32, 32}, draws_of(i));
    EXPECT_EQ(after_crop[1], after_resized[1]) << "whatever was drawn before it";
    const bool is_high = after_crop[0].box.top < 0;
    flips += after_crop[1].applies ? 1 : 0;
    high_crops += is_high ? 1 : 0;
    flips_of_high_crops += is_high && after_crop[1].applies ? 1 : 0;
  }
  EXPECT_NEAR(flips_of_high_crops, flips * (high_crops / double{kSamples}), 350);
}

TEST(DecisionsTest, DifferBetweenSamplesEpochsAndSeeds) {
  const Pipeline pipeline{{RandomCrop{32, 32, 1000}}, {}};
  const auto decision = decide(pipeline, {32, 32}, {.seed = 1, .epoch = 2, .sample = 3});
  EXPECT_NE(decide(pipeline, {32, 32}, {.seed = 2, .epoch = 2, .sample = 3}), decision);
  EXPECT_NE(decide(pipeline, {32, 32}, {.seed = 1, .epoch = 3, .sample = 3}), decision);
  EXPECT_NE(decide(pipeline, {32, 32}, {.seed = 1, .epoch = 2, .sample = 4}), decision);
  EXPECT_EQ(decide(pipeline, {32, 32}, {.seed = 1, .epoch = 2, .sample = 3}), decision);
}

TEST(DecisionsTest, NeverChange) {
  // Runs that were stopped go on with these numbers: a change here breaks every resumed run.
  const Pipeline pipeline{{RandomResizedCrop{224, 224}, RandomHorizontalFlip{},
                           RandomCrop{32, 32, 4}, RandomErasing{.probability = 1}},
                          {}};
  const auto decisions = decide(pipeline, {375, 500}, {.seed = 7, .epoch = 11, .sample = 13});
  EXPECT_EQ(decisions[0], (StepDecision{true, {16, 37, {335, 281}}, {224, 224}}));
  EXPECT_EQ(decisions[1], (StepDecision{true, {}, {224, 224}}));
  EXPECT_EQ(decisions[2], (StepDecision{true, {150, 42, {32, 32}}, {32, 32}}));
  EXPECT_EQ(decisions[3], (StepDecision{true, {6, 3, {7, 22}}, {32, 32}}));
}

}  // namespace
}  // namespace lockstep::data

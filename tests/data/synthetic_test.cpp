#include "lockstep/data/sets/synthetic.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

#include "tests/support/errors.h"

namespace lockstep::data {
namespace {

using testing::expect_error;

struct SyntheticImage {
  std::vector<std::uint8_t> pixels;
  std::int64_t label;
};

SyntheticImage read(const Dataset& set, std::int64_t index) {
  Sample sample(set.fields());
  set.sample(index, sample);
  const auto* const pixels = reinterpret_cast<const std::uint8_t*>(sample.data(0));
  return {{pixels, pixels + bytes_of(set.fields()[0])},
          *reinterpret_cast<const std::int64_t*>(sample.data(1))};
}

TEST(SyntheticTest, IsMadeFromSeedSplitAndIndexAlone) {
  const auto base = synthetic({.size = 10, .seed = 1});
  EXPECT_EQ(read(*base, 3).pixels, read(*synthetic({.size = 999, .seed = 1}), 3).pixels);
  EXPECT_NE(read(*base, 3).pixels, read(*base, 4).pixels);
  EXPECT_NE(read(*base, 3).pixels, read(*synthetic({.size = 10, .seed = 2}), 3).pixels);
  EXPECT_NE(read(*base, 3).pixels,
            read(*synthetic({.size = 10, .seed = 1, .split = Split::Test}), 3).pixels);
}

// What it makes may never change in silence: digests of runs depend on it.
TEST(SyntheticTest, IsTheSameInEveryVersion) {
  const auto picture = read(*synthetic({.size = 10, .seed = 2022}), 7);
  EXPECT_EQ(picture.label, 4);
  EXPECT_EQ((std::vector<int>{picture.pixels[0], picture.pixels[1], picture.pixels[3071]}),
            (std::vector<int>{113, 93, 139}));
}

TEST(SyntheticTest, HasTheShapeThatIsAskedFor) {
  const auto set = synthetic({.size = 5, .classes = 3, .height = 7, .width = 9, .channels = 1});
  EXPECT_EQ(set->size(), 5);
  EXPECT_EQ(set->fields()[0].shape, (std::vector<std::int64_t>{7, 9, 1}));
  EXPECT_EQ(set->class_names().size(), 3U);
  for (std::int64_t i = 0; i < 5; ++i) EXPECT_LT(read(*set, i).label, 3);
}

TEST(SyntheticTest, UsesItsClassesEvenly) {
  const auto set = synthetic({.size = 2000, .height = 2, .width = 2});
  std::map<std::int64_t, int> counts;
  for (std::int64_t i = 0; i < set->size(); ++i) ++counts[read(*set, i).label];
  ASSERT_EQ(counts.size(), 10U);
  for (const auto& [label, count] : counts) EXPECT_NEAR(count, 200, 60) << label;
}

/// The class whose mean picture is nearest: about the simplest classifier that there is.
std::int64_t nearest(const std::vector<std::vector<double>>& means, const SyntheticImage& picture) {
  std::int64_t best = 0;
  double least = 1e300;
  for (std::size_t label = 0; label < means.size(); ++label) {
    double distance = 0;
    for (std::size_t i = 0; i < picture.pixels.size(); ++i) {
      const auto difference = means[label][i] - picture.pixels[i];
      distance += difference * difference;
    }
    if (distance >= least) continue;
    least = distance;
    best = static_cast<std::int64_t>(label);
  }
  return best;
}

TEST(SyntheticTest, CanBeLearntFromTheTrainSplitForTheTestSplit) {
  const auto train = synthetic({.size = 2000, .height = 16, .width = 16});
  const auto test = synthetic({.size = 500, .height = 16, .width = 16, .split = Split::Test});
  std::vector<std::vector<double>> means(10, std::vector<double>(16 * 16 * 3));
  std::vector<int> counts(10);
  for (std::int64_t i = 0; i < train->size(); ++i) {
    const auto picture = read(*train, i);
    const auto label = static_cast<std::size_t>(picture.label);
    ++counts[label];
    for (std::size_t p = 0; p < picture.pixels.size(); ++p) means[label][p] += picture.pixels[p];
  }
  for (std::size_t label = 0; label < 10; ++label) {
    for (auto& value : means[label]) value /= counts[label];
  }
  int right = 0;
  for (std::int64_t i = 0; i < test->size(); ++i) {
    const auto picture = read(*test, i);
    right += nearest(means, picture) == picture.label ? 1 : 0;
  }
  EXPECT_GT(right, 350);  // guessing gives 50
}

TEST(SyntheticTest, RefusesWhatCannotBeMeant) {
  expect_error([] { synthetic({.size = 0}); }, ErrorKind::Options,
               "synthetic data: size: expected 1 to 1099511627776, found 0");
  expect_error([] { synthetic({.classes = 0}); }, ErrorKind::Options, "classes");
  expect_error([] { synthetic({.height = -3}); }, ErrorKind::Options, "height");
  expect_error([] { synthetic({.width = 5000}); }, ErrorKind::Options, "width");
  expect_error([] { synthetic({.channels = 5}); }, ErrorKind::Options, "channels");
  expect_error([] { synthetic({.classes = 100'000, .height = 4096, .width = 4096}); },
               ErrorKind::Options, "bytes of all patterns");
}

}  // namespace
}  // namespace lockstep::data

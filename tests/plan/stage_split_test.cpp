#include "lockstep/plan/stage_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <sstream>

#include "tests/support/errors.h"

namespace lockstep::plan {
namespace {

using lockstep::testing::expect_error;
using ::testing::ElementsAre;

/// Blocks "b0", "b1", …, which take these times, a third of each forward.
ModelProfile timed(const std::vector<double>& times) {
  ModelProfile profile{.blocks = {}, .is_timed = true};
  for (const auto time : times) {
    const auto number = static_cast<int>(profile.blocks.size());
    profile.blocks.push_back({.name = "b" + std::to_string(number),
                              .shares_with = number,
                              .forward_s = time / 3,
                              .backward_s = time * 2 / 3});
  }
  return profile;
}

ModelProfile named(const std::vector<std::string>& names) {
  auto profile = timed(std::vector<double>(names.size(), 1.0));
  for (std::size_t i = 0; i < names.size(); ++i) profile.blocks[i].name = names[i];
  return profile;
}

void share(ModelProfile& profile, std::size_t block, int with, const std::string& tensor) {
  profile.blocks[block].shares_with = with;
  profile.blocks[block].shares = tensor;
}

/// Tries every split, those with short early stages first.
class Exhaustive {
 public:
  Exhaustive(const ModelProfile& profile, int stages) : profile_(profile), stages_(stages) {
    extend({0});
  }
  /// Empty where there is none.
  const StageSplit& best() const { return best_; }

 private:
  void extend(StageSplit split) {
    if (static_cast<int>(split.size()) == stages_) {
      const auto slowest = slowest_stage(profile_, split);
      if (slowest < slowest_) best_ = split;
      slowest_ = std::min(slowest_, slowest);
      return;
    }
    for (int next = split.back() + 1; next < static_cast<int>(profile_.blocks.size()); ++next) {
      if (!may_begin_stage(profile_, next)) continue;
      split.push_back(next);
      extend(split);
      split.pop_back();
    }
  }

  const ModelProfile& profile_;
  int stages_;
  StageSplit best_;
  double slowest_ = std::numeric_limits<double>::infinity();
};

void expect_same_as_exhaustive(const ModelProfile& profile, int stages) {
  const auto best = Exhaustive(profile, stages).best();
  if (best.empty()) {
    expect_error([&] { split_evenly(profile, stages); }, ErrorKind::Options, "stages: expected");
  } else {
    EXPECT_EQ(split_evenly(profile, stages), best) << "stages: " << stages;
  }
}

TEST(StageSplitTest, AStageMayBeginWithAnyBlockWhereNothingIsShared) {
  const auto profile = timed({1, 1, 1});
  EXPECT_TRUE(may_begin_stage(profile, 0));
  EXPECT_TRUE(may_begin_stage(profile, 2));
  EXPECT_FALSE(may_begin_stage(profile, 3));
  EXPECT_FALSE(may_begin_stage(profile, -1));
}

TEST(StageSplitTest, NoStageBeginsBetweenWhatSharesATensor) {
  auto profile = timed({1, 1, 1, 1, 1});
  share(profile, 3, 1, "embed.weight");
  EXPECT_TRUE(may_begin_stage(profile, 0));
  EXPECT_TRUE(may_begin_stage(profile, 1));
  EXPECT_FALSE(may_begin_stage(profile, 2));
  EXPECT_FALSE(may_begin_stage(profile, 3));
  EXPECT_TRUE(may_begin_stage(profile, 4));
}

TEST(StageSplitTest, TheSlowestStageIsTheLongestSumForwardAndBackward) {
  const auto profile = timed({3, 6, 3, 9});
  EXPECT_DOUBLE_EQ(slowest_stage(profile, {0}), 21);
  EXPECT_DOUBLE_EQ(slowest_stage(profile, {0, 2}), 12);
  EXPECT_DOUBLE_EQ(slowest_stage(profile, {0, 1, 3}), 9);
}

TEST(StageSplitTest, TheSlowestStageIsAsFastAsCanBe) {
  EXPECT_THAT(split_evenly(timed({1, 1, 1, 1}), 2), ElementsAre(0, 2));
  EXPECT_THAT(split_evenly(timed({9, 1, 1, 1}), 2), ElementsAre(0, 1));
  EXPECT_THAT(split_evenly(timed({1, 1, 1, 9}), 2), ElementsAre(0, 3));
  EXPECT_THAT(split_evenly(timed({1, 2, 3, 4, 5}), 3), ElementsAre(0, 3, 4));
}

TEST(StageSplitTest, OfEquallyGoodSplitsTheEarliestStagesAreShortest) {
  EXPECT_THAT(split_evenly(timed({1, 1, 1, 9}), 3), ElementsAre(0, 1, 3));
  EXPECT_THAT(split_evenly(timed({0, 0, 0, 0}), 3), ElementsAre(0, 1, 2));
}

TEST(StageSplitTest, WhatWasNotTimedCountsByWhatItKeeps) {
  auto profile = timed({100, 1, 1, 1});
  profile.is_timed = false;
  for (const auto& [block, bytes] : {std::pair{0, 10}, {1, 10}, {2, 10}, {3, 30}}) {
    profile.blocks[static_cast<std::size_t>(block)].kept_bytes = bytes;
  }
  EXPECT_THAT(split_evenly(profile, 2), ElementsAre(0, 3));
  for (auto& block : profile.blocks) block.kept_bytes = 0;
  EXPECT_THAT(split_evenly(profile, 2), ElementsAre(0, 2));
}

TEST(StageSplitTest, EqualsTheBestOfAllSplitsOnRandomCosts) {
  std::mt19937 random(7);
  for (int round = 0; round < 400; ++round) {
    std::vector<double> times(1 + random() % 9);
    // Few values, so that there are ties, or many.
    const auto most = round % 2 == 0 ? 4U : 1'000'000U;
    for (auto& time : times) time = 1e-3 * (random() % most);
    const auto profile = timed(times);
    for (int stages = 1; stages <= static_cast<int>(times.size()) + 1; ++stages) {
      expect_same_as_exhaustive(profile, stages);
    }
  }
}

TEST(StageSplitTest, EqualsTheBestOfThoseThatSeparateNothingShared) {
  std::mt19937 random(11);
  for (int round = 0; round < 400; ++round) {
    std::vector<double> times(2 + random() % 9);
    for (auto& time : times) time = 1e-3 * (random() % 50);
    auto profile = timed(times);
    for (auto sharers = random() % 3; sharers > 0; --sharers) {
      const auto block = random() % times.size();
      share(profile, block, static_cast<int>(random() % (block + 1)), "w");
    }
    for (int stages = 1; stages <= static_cast<int>(times.size()); ++stages) {
      expect_same_as_exhaustive(profile, stages);
    }
  }
}

TEST(StageSplitTest, EqualsTheBestOfAllSplitsOnTheRecordedCostsOfAResNet50) {
  // Milliseconds per block, forward and backward, of 8 pictures of 32x32 on one core: the stem,
  // four layers of bottlenecks, and the head.
  const auto profile = timed({1.73, 4.37, 3.43, 4.24, 8.75, 4.30, 4.85, 5.11, 19.21, 13.07, 13.63,
                              14.76, 12.56, 13.71, 64.54, 44.31, 43.26, 0.43});
  for (int stages = 1; stages <= 18; ++stages) expect_same_as_exhaustive(profile, stages);
}

TEST(StageSplitTest, SplitsHundredsOfBlocksAtOnce) {
  std::mt19937 random(13);
  std::vector<double> times(600);
  for (auto& time : times) time = 1e-3 * (1 + random() % 50);
  const auto profile = timed(times);
  const auto split = split_evenly(profile, 64);
  ASSERT_EQ(split.size(), 64);
  // Nothing can be better than the mean, and a largest block is the most that is lost.
  EXPECT_LT(slowest_stage(profile, split), slowest_stage(profile, {0}) / 64 + 0.05);
}

TEST(StageSplitTest, MoreStagesThanCanBeginAreRefused) {
  auto profile = timed({1, 1, 1, 1});
  expect_error([&] { split_evenly(profile, 5); }, ErrorKind::Options,
               "stages: expected 1 to 4, as many as there are blocks that one may begin with, "
               "found 5\n--devices-per-replica 4");
  share(profile, 3, 1, "w");
  EXPECT_THAT(split_evenly(profile, 2), ElementsAre(0, 1));
  expect_error([&] { split_evenly(profile, 3); }, ErrorKind::Options, "--devices-per-replica 2");
  expect_error([&] { split_evenly(profile, 0); }, ErrorKind::Options, "--devices-per-replica 1");
}

TEST(StageSplitTest, AModelWithoutBlocksIsRefused) {
  const std::string message = "stages: expected a model that lists its blocks, found none";
  expect_error([] { split_evenly({}, 1); }, ErrorKind::Options, message);
  expect_error([] { split_at({}, {}); }, ErrorKind::Options, message);
}

TEST(SplitAtTest, StagesBeginWithTheNamedBlocksAndWithTheFirst) {
  const auto profile = named({"stem", "layer1", "layer2", "head"});
  EXPECT_THAT(split_at(profile, {"layer2"}), ElementsAre(0, 2));
  EXPECT_THAT(split_at(profile, {"layer1", "head"}), ElementsAre(0, 1, 3));
  EXPECT_THAT(split_at(profile, {}), ElementsAre(0));
}

TEST(SplitAtTest, AWrongNameListsTheRightOnesAndTheNearest) {
  const auto profile = named({"stem", "layer1.0", "layer1.1", "layer2.0", "head"});
  expect_error(
      [&] {
        split_at(profile, {"layer1.0", "layer2.7"});
      },
      ErrorKind::Options,
      "split: expected names of blocks, found 'layer2.7'; a stage may begin with: "
      "layer1.0, layer1.1, layer2.0, head\n--split layer1.0,layer2.0");
}

TEST(SplitAtTest, ANameThatIsNearToNoneGetsAnEvenSplit) {
  const auto profile = named({"stem", "layer1.0", "layer1.1", "layer2.0"});
  expect_error([&] { split_at(profile, {"transformer"}); }, ErrorKind::Options,
               "\n--split layer1.1");
  expect_error([&] { split_at(profile, std::vector<std::string>(9, "transformer")); },
               ErrorKind::Options, "\n--split layer1.0,layer1.1,layer2.0");
}

TEST(SplitAtTest, ABlockNamedTwiceIsRefused) {
  const auto profile = named({"stem", "layer1", "layer2", "head"});
  expect_error(
      [&] {
        split_at(profile, {"layer1", "layer2", "layer1"});
      },
      ErrorKind::Options,
      "split: expected each block once, found 'layer1' twice; a stage may begin with: "
      "layer1, layer2, head\n--split layer1,layer2");
}

TEST(SplitAtTest, BlocksOutOfOrderAreRefused) {
  const auto profile = named({"stem", "layer1", "layer2", "head"});
  expect_error(
      [&] {
        split_at(profile, {"layer2", "layer1"});
      },
      ErrorKind::Options,
      "split: expected blocks in the order of the model, found 'layer1' after 'layer2'; a "
      "stage may begin with: layer1, layer2, head\n--split layer1,layer2");
}

TEST(SplitAtTest, TheFirstBlockIsRefused) {
  const auto profile = named({"stem", "layer1", "layer2", "head"});
  expect_error(
      [&] {
        split_at(profile, {"stem", "layer2"});
      },
      ErrorKind::Options,
      "split: expected blocks after the first, found 'stem', which begins the first "
      "stage; a stage may begin with: layer1, layer2, head\n--split layer2");
  expect_error([&] { split_at(profile, {"stem"}); }, ErrorKind::Options, "\n--split layer2");
}

TEST(SplitAtTest, WhatSharesATensorIsNotSeparated) {
  auto profile = named({"embed", "layer1", "layer2", "head", "loss"});
  share(profile, 3, 1, "layer1.weight");
  expect_error([&] { split_at(profile, {"layer2"}); }, ErrorKind::Options,
               "split: expected what shares a tensor in one stage, found 'layer2' as the beginning "
               "of one: 'head' shares 'layer1.weight' with 'layer1'; a stage may begin with: "
               "layer1, loss\n--split layer1");
}

TEST(SplitAtTest, AModelThatCannotBeSplitSaysSo) {
  auto profile = named({"embed", "layer", "head"});
  share(profile, 2, 0, "embed.weight");
  expect_error([&] { split_at(profile, {"layer"}); }, ErrorKind::Options,
               "'head' shares 'embed.weight' with 'embed'; this model has no block that another "
               "stage may begin with\nleave out --split, with --devices-per-replica 1");
}

TEST(SplitAtTest, EveryHintWorks) {
  const std::vector<std::string> words{"stem", "layer1.0", "layer1.1", "layer2.0",
                                       "head", "layer9.0", "x",        "haed"};
  auto profile = named({"stem", "layer1.0", "layer1.1", "layer2.0", "head"});
  share(profile, 2, 1, "w");
  std::mt19937 random(3);
  int refused = 0;
  for (int round = 0; round < 300; ++round) {
    std::vector<std::string> names(1 + random() % 3);
    for (auto& name : names) name = words[random() % words.size()];
    try {
      split_at(profile, names);
    } catch (const Error& error) {
      ++refused;
      ASSERT_TRUE(error.hint().starts_with("--split ")) << error.what();
      std::vector<std::string> hinted;
      std::stringstream list(error.hint().substr(8));
      for (std::string name; std::getline(list, name, ',');) hinted.push_back(name);
      EXPECT_NO_THROW(split_at(profile, hinted)) << error.hint();
    }
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace lockstep::plan

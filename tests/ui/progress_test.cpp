#include "lockstep/ui/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <vector>

#include "lockstep/data/loader/loader.h"
#include "lockstep/data/sets/synthetic.h"
#include "lockstep/ui/standard_output.h"
#include "tests/support/errors.h"
#include "tests/support/subprocess.h"
#include "tests/ui/screen.h"

namespace lockstep {
namespace {

using testing::expect_error;
using testing::Screen;
using ui::BarStyle;

template <typename Range>
Progress<Range> lines_of(Screen& screen, Range&& range) {
  return {std::forward<Range>(range), "[E]", screen.output(BarStyle::Lines)};
}

TEST(ProgressTest, YieldsTheElementsThemselvesAndCountsThem) {
  Screen screen;
  std::vector<int> values{1, 2, 3};
  auto bar = lines_of(screen, values);
  for (auto& value : bar) {
    value *= 10;
    bar.postfix("value", value, "half", value / 2.0, "word", "x");
  }
  EXPECT_EQ(values, (std::vector<int>{10, 20, 30}));
  EXPECT_EQ(screen.take(),
            "[E]: 100%|██████████| 3/3 [00:00<?, ?it/s, value=30, half=15, word=x]\n");
  for ([[maybe_unused]] const auto& value : bar) bar.write_line("again");
  EXPECT_EQ(screen.take(), "again\nagain\nagain\n[E]: 100%|██████████| 3/3 [00:00<?, ?it/s]\n");
}

TEST(ProgressTest, EndsWithTheLoopHoweverThatEnds) {
  Screen screen;
  const std::vector<int> none;
  auto empty = lines_of(screen, none);
  for ([[maybe_unused]] const int value : empty) FAIL();
  EXPECT_EQ(screen.take(), "[E]: 0it [00:00, ?it/s]\n");
  {
    auto bar = lines_of(screen, std::vector<int>{1, 2});
    bar.postfix("not", "shown");  // before there is a bar
    bar.finish();
    bar.write_line("before");
    for ([[maybe_unused]] const int value : bar) break;
    bar.finish();
    EXPECT_EQ(screen.take(), "before\n[E]:   0%|          | 0/2 [00:00<?, ?it/s]\n");
  }
  EXPECT_EQ(screen.take(), "");
  try {
    auto bar = lines_of(screen, std::vector<int>{1, 2});
    for (const int value : bar) {
      if (value == 2) throw std::runtime_error("stop");
    }
  } catch (const std::runtime_error&) {
    EXPECT_EQ(screen.take(), "[E]:  50%|█████     | 1/2 [00:00<?, ?it/s]\n");
  }
}

/// A loader as those of libraries are: once through, with a number of its own.
struct Batches {
  struct Iterator {
    int at;
    int operator*() const { return at; }
    Iterator& operator++() {
      ++at;
      return *this;
    }
    bool operator==(const Iterator&) const = default;
  };
  Iterator begin() const { return {0}; }
  Iterator end() const { return {3}; }
};
struct ByIterations : Batches {
  std::int64_t iterations() const { return 3; }
};
struct ByBatches : Batches {
  std::int64_t batches_per_epoch() const { return 3; }
};

TEST(ProgressTest, KnowsHowLongALoaderIs) {
  Screen screen;
  const auto sum = [&](auto&& range) {
    int total = 0;
    auto bar = lines_of(screen, std::forward<decltype(range)>(range));
    for (const int value : bar) total += value;
    EXPECT_EQ(total, 3);
    return screen.take();
  };
  const auto* const counted = "[E]: 100%|██████████| 3/3 [00:00<?, ?it/s]\n";
  EXPECT_EQ(sum(ByIterations()), counted);
  EXPECT_EQ(sum(ByBatches()), counted);
  EXPECT_EQ(sum(Batches()), "[E]: 3it [00:00, ?it/s]\n");
}

TEST(ProgressTest, WalksAnEpochOfOurLoader) {
  Screen screen;
  const auto set = data::synthetic({.size = 40});
  const data::TrainOrder order(40, {.batch_size = 10}, {.seed = 1});
  data::Loader loader(set, data::micro_batches(order, {0, 1}));
  std::int64_t samples = 0;
  auto bar = lines_of(screen, loader.epoch(0, 1));
  for (auto& batch : bar) samples += batch.size();
  EXPECT_EQ(samples, 30);
  EXPECT_EQ(screen.take(), "[E]: 100%|██████████| 3/3 [00:00<?, ?it/s]\n");
}

TEST(ProgressTest, SaysNothingOnASilentInstance) {
  Screen screen;
  auto bar = Progress<std::vector<int>>({1, 2, 3}, "[E]", screen.output(BarStyle::Silent));
  for (const int value : bar) bar.postfix("value", value);
  EXPECT_EQ(screen.take(), "");
}

TEST(ProgressTest, WritesToStandardOutput) {
  const std::vector<int> values{1, 2};
  ::testing::internal::CaptureStdout();
  {
    auto bar = progress(values, "[{} {:02}]", std::string("Epoch"), 7);
    for ([[maybe_unused]] const int value : bar) bar.postfix("loss", 0.25F);
  }
  EXPECT_THAT(
      ::testing::internal::GetCapturedStdout(),
      ::testing::MatchesRegex(
          "\\[Epoch 07\\]: 100%\\|██████████\\| 2/2 \\[00:00<00:00, .*it/s, loss=0.25\\]\n"));
}

TEST(ProgressTest, RefusesALabelThatDoesNotFitItsValues) {
  const std::vector<int> values{1, 2};
  expect_error([&] { (void)progress(values, "[Epoch {:02}]"); }, ErrorKind::Options,
               "progress: the label '[Epoch {:02}]' does not fit its 0 values: argument not found");
  expect_error([&] { (void)progress(values, "[Epoch {:02}]", "one"); }, ErrorKind::Options,
               "progress(loader, \"[Epoch {:02}]\", epoch)");
}

World world_of(topology::LaunchedBy launched_by, int instance) {
  topology::Identity identity;
  identity.launched_by = launched_by;
  identity.instance = instance;
  identity.num_instances = 2;
  return World(identity);
}

TEST(BarStyleTest, FollowsInstanceLauncherAndOutput) {
  using topology::LaunchedBy;
  using ui::OutputKind;
  const auto style = [](LaunchedBy by, int instance, OutputKind output) {
    return bar_style(world_of(by, instance), output);
  };
  EXPECT_EQ(style(LaunchedBy::Nobody, 0, OutputKind::Terminal), BarStyle::Live);
  EXPECT_EQ(style(LaunchedBy::Lockstep, 0, OutputKind::Terminal), BarStyle::Live);
  EXPECT_EQ(style(LaunchedBy::Lockstep, 0, OutputKind::Pipe), BarStyle::Live);
  EXPECT_EQ(style(LaunchedBy::Lockstep, 0, OutputKind::Other), BarStyle::Lines);
  EXPECT_EQ(style(LaunchedBy::Torchrun, 0, OutputKind::Pipe), BarStyle::Lines);
  EXPECT_EQ(style(LaunchedBy::Nobody, 0, OutputKind::Pipe), BarStyle::Lines);
  EXPECT_EQ(style(LaunchedBy::Lockstep, 1, OutputKind::Terminal), BarStyle::Silent);
}

TEST(BarStyleTest, TellsPipesFromFiles) {
  const auto pipe = make_pipe();
  EXPECT_EQ(ui::kind_of_output(pipe.write_end.get()), ui::OutputKind::Pipe);
  EXPECT_EQ(ui::kind_of_output(-1), ui::OutputKind::Other);
}

}  // namespace
}  // namespace lockstep

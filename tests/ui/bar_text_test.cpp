#include "lockstep/ui/bar_text.h"

#include <gtest/gtest.h>

#include <limits>

namespace lockstep::ui {
namespace {

using Seconds = std::chrono::duration<double>;

std::string text(std::int64_t done, std::int64_t total, double seconds,
                 std::string_view postfix = {}) {
  return bar_text({.label = "[Epoch 01]",
                   .done = done,
                   .total = total,
                   .elapsed = Seconds(seconds),
                   .postfix = postfix});
}

// All of these are what tqdm 4.64.1 writes for the same numbers.
TEST(BarTextTest, IsWhatTqdmWrites) {
  EXPECT_EQ(text(0, 24, 0), "[Epoch 01]:   0%|          | 0/24 [00:00<?, ?it/s]");
  EXPECT_EQ(text(24, 24, 48.72, "loss=1.45, acc=48.4"),
            "[Epoch 01]: 100%|██████████| 24/24 [00:48<00:00,  2.03s/it, loss=1.45, acc=48.4]");
  EXPECT_EQ(text(1, 24, 0.9), "[Epoch 01]:   4%|▍         | 1/24 [00:00<00:20,  1.11it/s]");
  EXPECT_EQ(text(1, 24, 1), "[Epoch 01]:   4%|▍         | 1/24 [00:01<00:23,  1.00it/s]");
  EXPECT_EQ(text(1, 3, 2), "[Epoch 01]:  33%|███▎      | 1/3 [00:02<00:04,  2.00s/it]");
  EXPECT_EQ(text(7, 24, 3.5), "[Epoch 01]:  29%|██▉       | 7/24 [00:03<00:08,  2.00it/s]");
  EXPECT_EQ(text(1199, 1200, 3),
            "[Epoch 01]: 100%|█████████▉| 1199/1200 [00:03<00:00, 399.67it/s]");
  EXPECT_EQ(text(1000000, 2000000, 10),
            "[Epoch 01]:  50%|█████     | 1000000/2000000 [00:10<00:10, 100000.00it/s]");
}

TEST(BarTextTest, ShowsHoursWhereThereAreAny) {
  EXPECT_EQ(text(599, 600, 3725.4),
            "[Epoch 01]: 100%|█████████▉| 599/600 [1:02:05<00:06,  6.22s/it]");
  EXPECT_EQ(text(3, 1000, 7200),
            "[Epoch 01]:   0%|          | 3/1000 [2:00:00<664:40:00, 2400.00s/it]");
}

TEST(BarTextTest, FillsCellsByEighths) {
  const char* const cells[] = {" ", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  for (int i = 0; i < 8; ++i) {
    const auto bar = std::string("|█") + cells[i] + "        |";
    EXPECT_NE(text(8 + i, 80, 1).find(bar), std::string::npos) << text(8 + i, 80, 1);
  }
}

TEST(BarTextTest, CountsOnlyWhereThereIsNoTotal) {
  EXPECT_EQ(text(0, 0, 0), "[Epoch 01]: 0it [00:00, ?it/s]");
  EXPECT_EQ(text(5, 0, 2.5), "[Epoch 01]: 5it [00:02,  2.00it/s]");
  EXPECT_EQ(text(25, 24, 5), "[Epoch 01]: 25it [00:05,  5.00it/s]");
}

TEST(BarTextTest, LeavesWhatWasDoneBeforeOutOfTheRate) {
  EXPECT_EQ(
      bar_text(
          {.label = "[Epoch 01]", .done = 20, .total = 24, .elapsed = Seconds(4), .initial = 16}),
      "[Epoch 01]:  83%|████████▎ | 20/24 [00:04<00:04,  1.00it/s]");
}

TEST(BarTextTest, HasNoColonWithoutALabel) {
  EXPECT_EQ(bar_text({.label = "", .done = 1, .total = 2}),
            " 50%|█████     | 1/2 [00:00<?, ?it/s]");
}

TEST(BarTextTest, LeavesTheRateOutWhereItMeansNothing) {
  EXPECT_EQ(bar_text({.label = "[Prepare]",
                      .done = 3,
                      .total = 6,
                      .elapsed = Seconds(1.5),
                      .postfix = "reading the dataset",
                      .times = BarTimes::Elapsed}),
            "[Prepare]:  50%|█████     | 3/6 [00:01, reading the dataset]");
}

TEST(BarTextTest, SurvivesTimesThatAreNone) {
  EXPECT_EQ(text(1, 2, 1e13).substr(0, 75),
            "[Epoch 01]:  50%|█████     | 1/2 [277777777:46:40<277777777:46:40");
  EXPECT_EQ(text(1, 2, -1), "[Epoch 01]:  50%|█████     | 1/2 [00:00<?, ?it/s]");
}

TEST(ShortNumberTest, HasThreeDigitsAsTqdmShortensThem) {
  const std::pair<double, const char*> cases[] = {{0, "0"},
                                                  {1, "1"},
                                                  {0.5, "0.5"},
                                                  {1.4512, "1.45"},
                                                  {48.44, "48.4"},
                                                  {100, "100"},
                                                  {99.96, "100"},
                                                  {1234.5678, "1.23e+3"},
                                                  {12345678, "1.23e+7"},
                                                  {1e-5, "1e-5"},
                                                  {0.000123456, "0.000123"},
                                                  {0.01234, "0.0123"},
                                                  {1e22, "1e+22"},
                                                  {1000, "1000"},
                                                  {123456789, "1.23e+8"},
                                                  {0.1 + 0.2, "0.3"},
                                                  {-0.3333, "-0.333"},
                                                  {1e-123, "1e-123"}};
  for (const auto& [value, expected] : cases) EXPECT_EQ(short_number(value), expected);
  EXPECT_EQ(short_number(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(short_number(std::numeric_limits<double>::infinity()), "inf");
}

TEST(PostfixTextTest, JoinsNamesAndValues) {
  const std::vector<events::NamedValue> values{{"loss", 1.4512}, {"acc", 48.44}};
  EXPECT_EQ(postfix_text(values), "loss=1.45, acc=48.4");
  EXPECT_EQ(postfix_text({}), "");
}

}  // namespace
}  // namespace lockstep::ui

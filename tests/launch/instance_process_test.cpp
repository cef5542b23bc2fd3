#include "lockstep/launch/supervise/instance_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace lockstep::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::string numbered(int first, int last) {
  std::string text;
  for (int i = first; i <= last; ++i) text += "  line " + std::to_string(i) + '\n';
  return text;
}

TEST(TailTest, KeepsTheLastTwentyLinesWithTheirIndentation) {
  Tail tail;
  EXPECT_THAT(tail.lines(), IsEmpty());
  tail.add(numbered(1, 3));
  EXPECT_THAT(tail.lines(), ElementsAre("  line 1", "  line 2", "  line 3"));
  tail.add(numbered(4, 1000));
  ASSERT_EQ(tail.lines().size(), 20U);
  EXPECT_EQ(tail.lines().front(), "  line 981");
  EXPECT_EQ(tail.lines().back(), "  line 1000");
}

TEST(TailTest, KeepsTwentyLinesHoweverLongTheyAre) {
  Tail tail;
  for (int i = 0; i < 22; ++i) tail.add(std::to_string(i) + std::string(100'000, 'x') + '\n');
  ASSERT_EQ(tail.lines().size(), 20U);
  for (const auto& line : tail.lines()) EXPECT_TRUE(line.ends_with("x…"));
  EXPECT_TRUE(tail.lines().front().starts_with("2x"));
}

TEST(TailTest, CountsAnUnfinishedLine) {
  Tail tail;
  tail.add(numbered(1, 20) + "abort");
  tail.add("ed");
  ASSERT_EQ(tail.lines().size(), 20U);
  EXPECT_EQ(tail.lines().front(), "  line 2");
  EXPECT_EQ(tail.lines().back(), "aborted");
}

TEST(TailTest, IsTheSameHoweverTheTextIsCut) {
  const auto text = numbered(1, 37);
  Tail whole;
  whole.add(text);
  std::mt19937 random(5);
  for (int round = 0; round < 100; ++round) {
    Tail pieces;
    for (std::size_t i = 0; i < text.size();) {
      const auto size = 1 + random() % 60;
      pieces.add(std::string_view(text).substr(i, size));
      i += size;
    }
    ASSERT_EQ(pieces.lines(), whole.lines());
  }
}

}  // namespace
}  // namespace lockstep::launch

#include "lockstep/launch/supervise/line_buffer.h"

#include <gtest/gtest.h>

#include <random>

namespace lockstep::launch {
namespace {

/// All lines that come of `input`, handed over in pieces of at most `piece` bytes.
std::string lines_of(const std::string& input, std::size_t piece) {
  LineBuffer buffer;
  std::string lines;
  for (std::size_t i = 0; i < input.size(); i += piece) {
    lines += buffer.add(std::string_view(input).substr(i, piece)).lines;
  }
  return lines + std::string(buffer.finish().lines);
}

TEST(LineBufferTest, HoldsALineBackUntilItIsWhole) {
  LineBuffer buffer;
  EXPECT_EQ(buffer.add("one\ntw").lines, "one\n");
  EXPECT_EQ(buffer.add("o").lines, "");
  EXPECT_EQ(buffer.add("\nthree\n").lines, "two\nthree\n");
  EXPECT_EQ(buffer.finish().lines, "");
}

TEST(LineBufferTest, EndsALastLineThatHasNoLineFeed) {
  LineBuffer buffer;
  EXPECT_EQ(buffer.add("one\nlast").lines, "one\n");
  EXPECT_EQ(buffer.finish().lines, "last\n");
}

TEST(LineBufferTest, ShowsTheTextBehindTheLastCarriageReturnAsProgress) {
  LineBuffer buffer;
  const auto first = buffer.add("\r 10%");
  EXPECT_EQ(first.lines, "");
  EXPECT_EQ(first.progress, " 10%");
  EXPECT_EQ(buffer.add("\r 20%\r 30%").progress, " 30%");
  const auto last = buffer.add("\r100%\nnext\n");
  EXPECT_EQ(last.lines, "100%\nnext\n");
  EXPECT_EQ(last.progress, "");
}

TEST(LineBufferTest, ShowsWhatStandsBeforeATrailingCarriageReturn) {
  LineBuffer buffer;
  EXPECT_EQ(buffer.add(" 10%\r").progress, " 10%");
  EXPECT_EQ(buffer.add(" 20%\r").progress, " 20%");
  EXPECT_EQ(buffer.add("done\n").lines, "done\n");
}

TEST(LineBufferTest, TakesAPromptWithoutCarriageReturnForNoProgress) {
  LineBuffer buffer;
  EXPECT_EQ(buffer.add("Password:").progress, "");
}

TEST(LineBufferTest, KeepsLineEndsOfOtherSystemsAsTheyAre) {
  for (const std::size_t piece : {1, 2, 3, 100}) {
    EXPECT_EQ(lines_of("one\r\ntwo\r\n", piece), "one\r\ntwo\r\n") << piece;
  }
}

TEST(LineBufferTest, DoesNotLetProgressPileUp) {
  LineBuffer buffer;
  std::string_view progress;
  for (int i = 0; i < 100'000; ++i) progress = buffer.add("\r" + std::string(100, 'x')).progress;
  EXPECT_EQ(progress.size(), 100U);
  EXPECT_EQ(buffer.add("\n").lines.size(), 101U);
}

TEST(LineBufferTest, GivesTheSameLinesHoweverTheInputIsCut) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    std::string input;
    for (int i = 0; i < 60; ++i) input += "ab\n\r"[random() % 4];
    const auto expected = lines_of(input, input.size());
    for (std::size_t piece = 1; piece < 9; ++piece) {
      ASSERT_EQ(lines_of(input, piece), expected) << "piece " << piece << " of round " << round;
    }
  }
}

TEST(LineBufferTest, TakesALongLineForNoProgress) {
  LineBuffer buffer;
  EXPECT_EQ(buffer.add("\r" + std::string(100'000, 'x')).progress, "");
  EXPECT_EQ(buffer.add("\n").lines.size(), 100'001U);
}

TEST(LineBufferTest, HasNoLimitOnTheLengthOfALine) {
  const std::string line = std::string(5'000'000, 'y') + '\n';
  EXPECT_EQ(lines_of(line, 65536), line);
}

}  // namespace
}  // namespace lockstep::launch

#include "lockstep/base/strings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep {
namespace {

using ::testing::ElementsAre;

TEST(StringsTest, TrimsWhiteSpaceAtBothEndsOnly) {
  EXPECT_EQ(trim(" \t a b \r\n"), "a b");
  EXPECT_EQ(trim(" \n "), "");
}

TEST(StringsTest, SplitsAtEverySeparator) {
  EXPECT_THAT(split("a,,b,", ','), ElementsAre("a", "", "b", ""));
  EXPECT_THAT(split("", ','), ElementsAre(""));
}

TEST(StringsTest, ParsesWholeNumbersAndNothingElse) {
  EXPECT_EQ(parse_integer("-42"), -42);
  for (const auto* text : {"", "1x", " 1", "1 ", "1.5", "0x10", "99999999999999999999"}) {
    EXPECT_EQ(parse_integer(text), std::nullopt) << text;
  }
}

TEST(StringsTest, WritesNeighboursAsRanges) {
  EXPECT_EQ(to_ranges(std::vector<int>{0, 1, 2, 5, 7, 8}), "0-2,5,7-8");
  EXPECT_EQ(to_ranges(std::vector<int>{}), "-");
}

TEST(StringsTest, FindsWhatAMisspeltWordMeant) {
  const std::vector<std::string> known{"--num-replicas", "--num-instances", "--bind"};
  EXPECT_EQ(closest("--num-instance", known), "--num-instances");
  EXPECT_EQ(closest("--bnd", known), "--bind");
  EXPECT_EQ(closest("--colour", known), std::nullopt);
}

}  // namespace
}  // namespace lockstep

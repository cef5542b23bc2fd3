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

TEST(StringsTest, TellsUtf8FromOtherBytes) {
  for (const auto* const text : {"", "plain", "\u00e4\u20ac\U0001f600", "\xf4\x8f\xbf\xbf"}) {
    EXPECT_TRUE(is_utf8(text)) << text;
  }
  // A lone byte, cut off, too long, half of a pair, beyond the last, never used.
  for (const auto* const text :
       {"\x80", "a\xe2\x82", "\xc0\x80", "\xe0\x80\x80", "\xf0\x80\x80\x80", "\xed\xa0\x80",
        "\xf4\x90\x80\x80", "\xff", "\xc3("}) {
    EXPECT_FALSE(is_utf8(text)) << text;
  }
}

TEST(StringsTest, PrintableTextsSteerNoTerminal) {
  EXPECT_EQ(printable("train --lr 0.1"), "train --lr 0.1");
  EXPECT_EQ(printable("a\x1b[2Jb\n\x7f"), "a?[2Jb??");
  EXPECT_EQ(printable("gr\xc3\xb6\xc3\x9f"
                      "er \xe2\x82\xac"),
            "gr\xc3\xb6\xc3\x9f"
            "er \xe2\x82\xac");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J\xc2\xa0"),
            "?2J\xc2\xa0");
  EXPECT_EQ(printable("half \xc3"), "half ?");
}

}  // namespace
}  // namespace lockstep

#include "lockstep/cli/byte_size.h"

#include <gtest/gtest.h>

namespace lockstep::cli {
namespace {

TEST(ByteSizeTest, ReadsPlainBytesAndUnits) {
  EXPECT_EQ(parse_size("0"), 0);
  EXPECT_EQ(parse_size("1001"), 1001);
  EXPECT_EQ(parse_size("4K"), 4096);
  EXPECT_EQ(parse_size("3k"), 3072);
  EXPECT_EQ(parse_size("100M"), 104857600);
  EXPECT_EQ(parse_size("5G"), 5368709120);
  EXPECT_EQ(parse_size("8589934591G"), 9223372035781033984);
}

TEST(ByteSizeTest, ReadsNothingElse) {
  for (const auto* text : {"", "K", "4X", "4KB", "-4", "-4K", "1.5M", " 4K", "0x10", "8589934592G",
                           "9223372036854775808"}) {
    EXPECT_EQ(parse_size(text), std::nullopt) << text;
  }
}

TEST(ByteSizeTest, WritesTheLargestUnitThatFits) {
  EXPECT_EQ(size_text(0), "0 B");
  EXPECT_EQ(size_text(1023), "1023 B");
  EXPECT_EQ(size_text(4096), "4 KiB");
  EXPECT_EQ(size_text(5000), "5000 B");
  EXPECT_EQ(size_text(104857600), "100 MiB");
  EXPECT_EQ(size_text(std::int64_t{3} << 30), "3 GiB");
}

}  // namespace
}  // namespace lockstep::cli

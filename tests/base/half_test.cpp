#include "lockstep/base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace lockstep {
namespace {

TEST(HalfTest, EveryFloat16SurvivesTheWayToFloatAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const Float16 half{static_cast<std::uint16_t>(bits)};
    const auto value = to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(to_float16(value))));
    } else {
      ASSERT_EQ(to_float16(value), half) << bits;
    }
  }
}

TEST(HalfTest, EveryBFloat16SurvivesTheWayToFloatAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const BFloat16 half{static_cast<std::uint16_t>(bits)};
    const auto value = to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(to_float(to_bfloat16(value))));
    } else {
      ASSERT_EQ(to_bfloat16(value), half) << bits;
    }
  }
}

TEST(HalfTest, RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(to_float16(1.0F + 0x1p-11F).bits, to_float16(1.0F).bits);              // a tie, down
  EXPECT_EQ(to_float16(1.0F + 0x1.8p-10F).bits, to_float16(1.0F + 0x1p-9F).bits);  // a tie, up
  EXPECT_EQ(to_bfloat16(1.0F + 0x1p-8F).bits, to_bfloat16(1.0F).bits);
  EXPECT_EQ(to_bfloat16(1.0F + 0x1.8p-7F).bits, to_bfloat16(1.0F + 0x1p-6F).bits);
  EXPECT_TRUE(std::isinf(to_float(to_float16(65520.0F))));
  EXPECT_EQ(to_float(to_float16(65519.0F)), 65504.0F);
  EXPECT_EQ(to_float(to_float16(0x1p-24F)), 0x1p-24F);  // the smallest that is not zero
}

}  // namespace
}  // namespace lockstep

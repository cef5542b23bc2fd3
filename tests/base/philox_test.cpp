#include "lockstep/base/philox.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

using Words = std::array<std::uint32_t, 4>;

// The known answers that the authors of Random123 publish.
TEST(PhiloxTest, GivesThePublishedWords) {
  EXPECT_EQ(philox(0, {0, 0, 0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox(~std::uint64_t{0}, {~0U, ~0U, ~0U, ~0U}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(PhiloxTest, TurnsWordsIntoNumbersWithinTheirRange) {
  EXPECT_EQ(unit_float(0), 0.0F);
  EXPECT_EQ(unit_float(0x80000000), 0.5F);
  EXPECT_LT(unit_float(~0U), 1.0F);
  EXPECT_EQ(below(10, 0), 0U);
  EXPECT_EQ(below(10, ~0U), 9U);
  EXPECT_EQ(below(1, ~0U), 0U);
}

}  // namespace
}  // namespace lockstep

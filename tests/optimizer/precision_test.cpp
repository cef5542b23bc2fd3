#include "lockstep/optimizer/precision.h"

#include <gtest/gtest.h>

#include "tests/support/errors.h"

namespace lockstep {
namespace {

using testing::expect_error;

TEST(PrecisionTest, EachValueIsReadAsItIsWritten) {
  for (const auto value : {Precision::P32_32, Precision::P16_32, Precision::P16_16}) {
    EXPECT_EQ(parse_precision(name_of(value)), value);
  }
  for (const auto value : {Half::BF16, Half::F16}) EXPECT_EQ(parse_half(name_of(value)), value);
  for (const auto value : {Reduction::Mean, Reduction::Sum}) {
    EXPECT_EQ(parse_reduction(name_of(value)), value);
  }
  for (const auto value : {ReductionOrder::Ordered, ReductionOrder::Fast}) {
    EXPECT_EQ(parse_reduction_order(name_of(value)), value);
  }
}

TEST(PrecisionTest, TheWordsAreThese) {
  EXPECT_EQ(parse_precision("32.32"), Precision::P32_32);
  EXPECT_EQ(parse_precision("16.32"), Precision::P16_32);
  EXPECT_EQ(parse_precision("16.16"), Precision::P16_16);
  EXPECT_EQ(parse_half("bf16"), Half::BF16);
  EXPECT_EQ(parse_half("fp16"), Half::F16);
  EXPECT_EQ(parse_reduction("mean"), Reduction::Mean);
  EXPECT_EQ(parse_reduction("sum"), Reduction::Sum);
  EXPECT_EQ(parse_reduction_order("ordered"), ReductionOrder::Ordered);
  EXPECT_EQ(parse_reduction_order("fast"), ReductionOrder::Fast);
}

TEST(PrecisionTest, OtherWordsAreRefusedWithTheChoices) {
  expect_error([] { parse_precision("16.23"); }, ErrorKind::Options,
               "precision: expected one of 32.32, 16.32, 16.16, found '16.23'\n"
               "did you mean '16.32'?");
  expect_error([] { parse_half("float16"); }, ErrorKind::Options,
               "half: expected one of bf16, fp16, found 'float16'");
  expect_error([] { parse_reduction("means"); }, ErrorKind::Options,
               "reduction: expected one of mean, sum, found 'means'\ndid you mean 'mean'?");
  expect_error([] { parse_reduction_order("order"); }, ErrorKind::Options,
               "reduction order: expected one of ordered, fast, found 'order'\n"
               "did you mean 'ordered'?");
  expect_error([] { parse_reduction_order("whatever"); }, ErrorKind::Options,
               "reduction order: expected one of ordered, fast, found 'whatever'\n");
}

}  // namespace
}  // namespace lockstep

#include "lockstep/comm/reduce_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace lockstep::comm::kernels {
namespace {

std::vector<float> interesting_floats() {
  std::vector<float> values{0.0F,          -0.0F,         65504.0F,      65519.9F,
                            65520.0F,      65536.0F,      -1e30F,        1e-8F,
                            5.9604645e-8F, 2.9802322e-8F, 2.9802326e-8F, 6.1035156e-5F};
  values.push_back(std::numeric_limits<float>::infinity());
  values.push_back(-std::numeric_limits<float>::infinity());
  // Every exponent, with mantissas about the places where rounding turns.
  for (std::uint32_t exponent = 0; exponent < 255; ++exponent) {
    for (const std::uint32_t mantissa : {0U, 1U, 0xfffU, 0x1000U, 0x1001U, 0x2fffU, 0x3000U,
                                         0x7fffU, 0x8000U, 0x8001U, 0x18000U, 0x7fffffU}) {
      values.push_back(std::bit_cast<float>(exponent << 23 | mantissa));
    }
  }
  return values;
}

TEST(NarrowTest, RoundsToF16AsTheCompilerDoes) {
  const auto values = interesting_floats();
  std::vector<Float16> halves(values.size());
  narrow(DataType::F16, values.data(), halves.data(), values.size());
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto expected = std::bit_cast<std::uint16_t>(static_cast<_Float16>(values[i]));
    EXPECT_EQ(halves[i].bits, expected) << values[i];
  }
}

TEST(NarrowTest, RoundsToBf16ToNearestAndTiesToEven) {
  const std::vector<float> values{
      std::bit_cast<float>(0x3f808000U), std::bit_cast<float>(0x3f818000U),
      std::bit_cast<float>(0x3f808001U), std::bit_cast<float>(0x3f807fffU),
      std::numeric_limits<float>::max()};
  std::vector<BFloat16> halves(values.size());
  narrow(DataType::BF16, values.data(), halves.data(), values.size());
  EXPECT_EQ(halves[0].bits, 0x3f80);
  EXPECT_EQ(halves[1].bits, 0x3f82);
  EXPECT_EQ(halves[2].bits, 0x3f81);
  EXPECT_EQ(halves[3].bits, 0x3f80);
  EXPECT_EQ(halves[4].bits, 0x7f80) << "the largest f32 is beyond the largest bf16";
}

TEST(NarrowTest, KeepsANanANan) {
  for (const std::uint32_t bits : {0x7f800001U, 0x7fc00000U, 0xffffffffU}) {
    const auto nan = std::bit_cast<float>(bits);
    Float16 half{};
    BFloat16 bhalf{};
    narrow(DataType::F16, &nan, &half, 1);
    narrow(DataType::BF16, &nan, &bhalf, 1);
    EXPECT_GT(half.bits & 0x7fff, 0x7c00);
    EXPECT_GT(bhalf.bits & 0x7fff, 0x7f80);
  }
}

TEST(WidenTest, IsExactForEveryF16) {
  std::vector<Float16> halves(1 << 16);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i].bits = static_cast<std::uint16_t>(i);
  std::vector<float> values(halves.size());
  widen(DataType::F16, halves.data(), values.data(), halves.size());
  for (std::size_t i = 0; i < halves.size(); ++i) {
    const auto expected = static_cast<float>(std::bit_cast<_Float16>(halves[i].bits));
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(values[i])) << i;
    } else {
      EXPECT_EQ(std::bit_cast<std::uint32_t>(values[i]), std::bit_cast<std::uint32_t>(expected))
          << i;
    }
  }
}

TEST(KernelsTest, GiveAnElementTheSameBitsWhereverItStands) {
  // Vectors and the rest behind them, at every alignment.
  std::vector<float> left(200);
  std::vector<float> right(200);
  for (std::size_t i = 0; i < left.size(); ++i) {
    left[i] = 1.0F / static_cast<float>(i + 3);
    right[i] = static_cast<float>(i) * 1.1F;
  }
  std::vector<float> whole(200);
  combine(ReduceOp::Sum, DataType::F32, left.data(), right.data(), whole.data(), 200);
  divide(DataType::F32, whole.data(), 3, 200);
  for (std::size_t begin = 0; begin < 20; ++begin) {
    for (std::size_t count = 1; count < 40; ++count) {
      std::vector<float> part(count);
      combine(ReduceOp::Sum, DataType::F32, &left[begin], &right[begin], part.data(), count);
      divide(DataType::F32, part.data(), 3, count);
      EXPECT_EQ(std::memcmp(part.data(), &whole[begin], count * sizeof(float)), 0);
    }
  }
}

TEST(KernelsTest, DivideByPowersOfTwoToTheBitsOfADivision) {
  std::vector<float> values;
  // All signs and exponents, with those below the normal ones, infinities and what is no number.
  for (std::uint32_t bits = 0x1234; bits < 0xFFF00000U; bits += 0x000FFFF7) {
    values.push_back(std::bit_cast<float>(bits));
  }
  for (const std::int64_t divisor : {1, 2, 8, 1024, 3, 12}) {
    auto found = values;
    divide(DataType::F32, found.data(), divisor, found.size());
    for (std::size_t i = 0; i < values.size(); ++i) {
      const float expected = values[i] / static_cast<float>(divisor);
      EXPECT_EQ(std::bit_cast<std::uint32_t>(found[i]), std::bit_cast<std::uint32_t>(expected))
          << values[i] << " / " << divisor;
    }
  }
}

TEST(KernelsTest, IntegersKeepTheirLowBitsAndMeansRoundTowardsZero) {
  const std::int64_t large = std::numeric_limits<std::int64_t>::max();
  const std::int64_t two = 2;
  std::int64_t result = 0;
  combine(ReduceOp::Sum, DataType::I64, &large, &two, &result, 1);
  EXPECT_EQ(result, std::numeric_limits<std::int64_t>::min() + 1);
  combine(ReduceOp::Product, DataType::I64, &large, &two, &result, 1);
  EXPECT_EQ(result, -2);
  std::int64_t odd = -7;
  divide(DataType::I64, &odd, 2, 1);
  EXPECT_EQ(odd, -3);
  const std::int64_t wide = 300;
  std::uint8_t narrowed = 0;
  narrow(DataType::U8, &wide, &narrowed, 1);
  EXPECT_EQ(narrowed, 44);
}

}  // namespace
}  // namespace lockstep::comm::kernels

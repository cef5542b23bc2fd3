#include "lockstep/weights/compare_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "lockstep/base/half.h"
#include "tests/weights/made_tensors.h"

namespace lockstep::weights {
namespace {

using testing::add_tensor;

template <typename Element>
TensorSet one_tensor(ElementType type, const std::vector<Element>& values) {
  TensorSet set;
  add_tensor(set, "x", type, {static_cast<std::int64_t>(values.size())},
             {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(Element)});
  return set;
}

/// The one difference that two tensors have.
template <typename Element>
ElementDifferences difference(ElementType type, const std::vector<Element>& a,
                              const std::vector<Element>& b) {
  const auto set_a = one_tensor(type, a);
  const auto set_b = one_tensor(type, b);
  const auto result = compare_weights(set_a, set_b);
  EXPECT_EQ(result.differences.size(), 1u);
  return result.differences.at(0).elements.value();
}

TEST(CompareWeightsTest, FindsNothingWhereNothingDiffers) {
  const auto set = in_order(testing::every_type(), "test");
  const auto same = in_order(testing::every_type(), "test");
  const auto result = compare_weights(set, same);
  EXPECT_THAT(result.differences, ::testing::IsEmpty());
  EXPECT_EQ(result.tensors, static_cast<std::int64_t>(set.tensors.size()));
  EXPECT_EQ(compare_weights({}, {}).tensors, 0);
}

TEST(CompareWeightsTest, FindsThePlaceWhereFloatsAreFurthestApart) {
  const auto found = difference<float>(ElementType::F32, {1, 2, 3, 4}, {1, 2.5, 1, 4.25});
  EXPECT_EQ(found.differing, 3);
  EXPECT_EQ(found.total, 4);
  EXPECT_EQ(found.index, 2);
  EXPECT_EQ(found.values, std::pair(3.0, 1.0));
  EXPECT_EQ(difference<double>(ElementType::F64, {1, 2}, {1, 1e300}).values, std::pair(2.0, 1e300));
}

TEST(CompareWeightsTest, KnowsShortFloats) {
  const auto halves =
      difference<std::uint16_t>(ElementType::F16, {to_float16(1).bits, to_float16(2).bits},
                                {to_float16(1.5F).bits, to_float16(-2).bits});
  EXPECT_EQ(halves.values, std::pair(2.0, -2.0));
  EXPECT_EQ(halves.index, 1);
  const auto brains =
      difference<std::uint16_t>(ElementType::BF16, {to_bfloat16(3).bits}, {to_bfloat16(256).bits});
  EXPECT_EQ(brains.values, std::pair(3.0, 256.0));
}

TEST(CompareWeightsTest, PutsNumbersThatAreNoneFirst) {
  const auto nan = std::numeric_limits<float>::quiet_NaN();
  const auto infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(difference<float>(ElementType::F32, {1, 2, 5}, {1e30F, nan, 5}).index, 1);
  EXPECT_EQ(difference<float>(ElementType::F32, {1, infinity}, {2, -infinity}).index, 1);
  // Not the same bits, and still no distance.
  const auto zeros = difference<float>(ElementType::F32, {1, 0.0F}, {1, -0.0F});
  EXPECT_EQ(zeros.differing, 1);
  EXPECT_EQ(zeros.index, 1);
  const auto nans = difference<float>(ElementType::F32, {nan}, {std::bit_cast<float>(0x7fc00001U)});
  EXPECT_EQ(nans.differing, 1);
}

TEST(CompareWeightsTest, CountsOtherElements) {
  const auto found = difference<std::int64_t>(ElementType::I64, {1, 2, 3}, {1, 7, 9});
  EXPECT_EQ(found.differing, 2);
  EXPECT_EQ(found.index, 1);
  EXPECT_FALSE(found.values);
  EXPECT_EQ(difference<std::uint8_t>(ElementType::Bool, {0, 0, 1}, {0, 0, 0}).index, 2);
}

TEST(CompareWeightsTest, TellsMissingNamesAndOtherShapes) {
  TensorSet a;
  TensorSet b;
  add_tensor(a, "a", ElementType::U8, {1}, "x");
  add_tensor(a, "shape", ElementType::U8, {2, 1}, "xy");
  add_tensor(a, "type", ElementType::U8, {1}, "x");
  add_tensor(b, "b", ElementType::U8, {1}, "x");
  add_tensor(b, "shape", ElementType::U8, {1, 2}, "xy");
  add_tensor(b, "type", ElementType::I8, {1}, "x");
  const auto result = compare_weights(a, b);
  EXPECT_EQ(result.tensors, 4);
  ASSERT_EQ(result.differences.size(), 4u);
  EXPECT_EQ(result.differences[0].name, "a");
  EXPECT_EQ(result.differences[0].b, nullptr);
  EXPECT_EQ(result.differences[1].name, "b");
  EXPECT_EQ(result.differences[1].a, nullptr);
  EXPECT_EQ(result.differences[2].name, "shape");
  EXPECT_EQ(result.differences[3].name, "type");
  for (const auto& difference : result.differences) EXPECT_FALSE(difference.elements);
}

TEST(CompareWeightsTest, CountsTiedNamesOnceAndSeparateOnesEach) {
  TensorSet tied;
  add_tensor(tied, "a", ElementType::U8, {1}, "x");
  tied.ties = {{"b", "a"}};
  TensorSet separate;
  add_tensor(separate, "a", ElementType::U8, {1}, "x");
  add_tensor(separate, "b", ElementType::U8, {1}, "y");
  EXPECT_EQ(compare_weights(tied, tied).tensors, 1);
  const auto result = compare_weights(tied, separate);
  EXPECT_EQ(result.tensors, 2);
  ASSERT_EQ(result.differences.size(), 1u);
  EXPECT_EQ(result.differences[0].name, "b");
}

}  // namespace
}  // namespace lockstep::weights

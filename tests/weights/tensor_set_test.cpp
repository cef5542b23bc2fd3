#include "lockstep/weights/tensor_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "lockstep/weights/row_major.h"
#include "tests/support/errors.h"
#include "tests/weights/made_tensors.h"

namespace lockstep::weights {
namespace {

using testing::add_tensor;
using testing::expect_error;
using testing::text_of;

TEST(ElementTypeTest, KnowsSizesAndNamesOfEveryType) {
  std::string all;
  for (int i = 0; i <= static_cast<int>(ElementType::F64); ++i) {
    const auto type = static_cast<ElementType>(i);
    EXPECT_EQ(from_safetensors_name(safetensors_name(type)), type);
    if (const auto computed = data_type(type)) {
      EXPECT_EQ(element_type(*computed), type);
      EXPECT_EQ(size_of(*computed), size_of(type));
      EXPECT_EQ(name_of(*computed), name_of(type));
    }
    all += std::string(name_of(type)) + ":" + std::to_string(size_of(type)) + " ";
  }
  EXPECT_EQ(all, "bool:1 u8:1 i8:1 i16:2 u16:2 i32:4 u32:4 i64:8 u64:8 f16:2 bf16:2 f32:4 f64:8 ");
  EXPECT_EQ(from_safetensors_name("F8_E4M3"), std::nullopt);
}

TEST(TensorSetTest, PutsEachTensorUnderTheFirstOfItsNames) {
  TensorSet set;
  add_tensor(set, "m", ElementType::U8, {1}, "m");
  add_tensor(set, "b", ElementType::U8, {1}, "b");
  set.ties = {{"z", "m"}, {"a", "m"}, {"k", "m"}};
  const auto sorted = in_order(set, "w");
  ASSERT_EQ(sorted.tensors.size(), 2u);
  EXPECT_EQ(sorted.tensors[0].name, "a");
  EXPECT_EQ(text_of(sorted.tensors[0].bytes), "m");
  EXPECT_EQ(sorted.tensors[1].name, "b");
  EXPECT_EQ(sorted.ties, (std::vector<Tied>{{"k", "a"}, {"m", "a"}, {"z", "a"}}));
  EXPECT_EQ(sorted.find("z"), &sorted.tensors[0]);
  EXPECT_EQ(sorted.find("a"), &sorted.tensors[0]);
  EXPECT_EQ(sorted.find("b"), &sorted.tensors[1]);
  EXPECT_EQ(sorted.find("c"), nullptr);
}

TEST(TensorSetTest, RefusesWhatCannotBeMeant) {
  const auto expect_refused = [](const TensorSet& set, const std::string& text) {
    expect_error([&] { in_order(set, "w"); }, ErrorKind::Options, text);
  };
  TensorSet set;
  add_tensor(set, "a", ElementType::F32, {2}, "1234567");
  expect_refused(set, "w: expected the bytes of 'a', f32 [2], found 7 of them");
  set = {};
  add_tensor(set, "a", ElementType::U8, {1}, "x");
  set.ties = {{"b", "c"}};
  expect_refused(set, "w: 'b' is tied to 'c', which is not there");
  set.ties = {{"a", "a"}};
  expect_refused(set, "w: the name 'a' occurs twice");
  set.ties = {{"b\xff", "a"}};
  expect_refused(set, "w: expected names in UTF-8, found 'b?'");
}

TEST(TensorSetTest, CountsBytesWithoutOverflow) {
  constexpr auto kHuge = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(bytes_of(ElementType::F32, {}), 4u);
  EXPECT_EQ(bytes_of(ElementType::F32, std::array<std::int64_t, 2>{3, 5}), 60u);
  EXPECT_EQ(bytes_of(ElementType::F32, std::array<std::int64_t, 2>{0, kHuge / 4}), 0u);
  EXPECT_EQ(bytes_of(ElementType::F32, std::array<std::int64_t, 2>{kHuge, kHuge}), std::nullopt);
  EXPECT_EQ(bytes_of(ElementType::F32, std::array<std::int64_t, 1>{-1}), std::nullopt);
}

TEST(RowMajorTest, GathersElementsOfEverySize) {
  const std::string storage = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKL";
  const auto bytes = testing::bytes_of_text(storage);
  const Geometry transposed{1, {2, 3}, {1, 2}};
  const auto gathered = [&](std::size_t size, const Geometry& geometry) {
    return text_of(to_row_major(bytes, size, geometry));
  };
  EXPECT_EQ(gathered(1, transposed), "135246");
  EXPECT_EQ(gathered(2, transposed), "2367ab4589cd");
  EXPECT_EQ(gathered(4, transposed), "4567cdefklmn89abghijopqr");
  EXPECT_EQ(gathered(8, {0, {2, 2}, {1, 2}}), "01234567ghijklmn89abcdefopqrstuv");
  EXPECT_EQ(gathered(2, {3, {}, {}}), "67");
  EXPECT_EQ(gathered(1, {0, {0, 3}, {3, 1}}), "");
  EXPECT_EQ(gathered(1, {0, {2, 2, 2}, {1, 10, 20}}), "0kau1lbv");
}

TEST(RowMajorTest, TellsWhatFitsAndWhatIsRowMajor) {
  constexpr auto kHuge = std::numeric_limits<std::int64_t>::max();
  EXPECT_TRUE(fits({0, {2, 3}, {3, 1}}, 6));
  EXPECT_FALSE(fits({1, {2, 3}, {3, 1}}, 6));
  EXPECT_FALSE(fits({0, {2, 3}, {4, 1}}, 6));
  EXPECT_FALSE(fits({-1, {2}, {1}}, 6));
  EXPECT_FALSE(fits({0, {-2}, {1}}, 6));
  EXPECT_FALSE(fits({0, {2}, {-1}}, 6));
  EXPECT_FALSE(fits({0, {2}, {1, 1}}, 6));
  EXPECT_FALSE(fits({0, {kHuge, kHuge}, {0, 0}}, 6));
  EXPECT_FALSE(fits({0, {3}, {kHuge}}, 6));
  EXPECT_TRUE(fits({6, {0}, {1}}, 6));
  EXPECT_FALSE(fits({7, {0}, {1}}, 6));
  EXPECT_TRUE(is_row_major({0, {2, 1, 3}, {3, 77, 1}}));
  EXPECT_FALSE(is_row_major({0, {2, 3}, {1, 2}}));
  EXPECT_TRUE(is_row_major({0, {}, {}}));
}

TEST(TensorSetTest, RenamesNothingForAPossibleTie) {
  TensorSet set;
  testing::add_tensor(set, "m", ElementType::U8, {1}, "x");
  set.possible_ties = {{"z", "m"}, {"b", "m"}};
  const auto sorted = in_order(set, "w");
  EXPECT_EQ(sorted.tensors[0].name, "m");
  EXPECT_EQ(sorted.possible_ties, (std::vector<Tied>{{"b", "m"}, {"z", "m"}}));
  EXPECT_EQ(sorted.find("b"), sorted.find("m"));
  // It follows where a certain one renames.
  set.ties = {{"a", "m"}};
  const auto renamed = in_order(set, "w");
  EXPECT_EQ(renamed.possible_ties, (std::vector<Tied>{{"b", "a"}, {"z", "a"}}));
  EXPECT_EQ(renamed.find("z"), renamed.find("m"));
}

}  // namespace
}  // namespace lockstep::weights

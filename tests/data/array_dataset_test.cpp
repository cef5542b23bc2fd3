#include "lockstep/data/sets/array_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "tests/data/made_files.h"

namespace lockstep::data {
namespace {

const std::vector<Field> kFields{{"x", DataType::F32, {2}}, {"label", DataType::I64}};

void expect_refused(std::vector<Field> fields, std::vector<Array> arrays, const std::string& part) {
  const auto error =
      lockstep::testing::thrown_by([&] { ArrayDataset(std::move(fields), std::move(arrays)); });
  EXPECT_EQ(error.kind(), ErrorKind::Options);
  EXPECT_THAT(error.what(), ::testing::HasSubstr(part));
}

TEST(ArrayDatasetTest, RefersToItsArrays) {
  const std::vector<float> x{1, 2, 3, 4, 5, 6};
  const ArrayDataset set(kFields,
                         {array_at(std::span<const float>(x)), array_of<std::int64_t>({7, 8, 9})},
                         {"a", "b"});
  ASSERT_EQ(set.size(), 3);
  EXPECT_EQ(set.class_names()[1], "b");
  Sample sample(set.fields());
  set.sample(1, sample);
  EXPECT_EQ(static_cast<const void*>(sample.data(0)), x.data() + 2);
  EXPECT_EQ(*reinterpret_cast<const std::int64_t*>(sample.data(1)), 8);
  EXPECT_EQ(set.source_of(1), "");
}

TEST(ArrayDatasetTest, GivesTheLengthOfAVaryingField) {
  const ArrayDataset set({{"tokens", DataType::I32, {3}, FieldKind::Varying}},
                         {array_of<std::int32_t>({1, 2, 3, 4, 5, 6}, {2, 0})}, {},
                         [](std::int64_t index) { return "line " + std::to_string(index); });
  Sample sample(set.fields());
  set.sample(0, sample);
  EXPECT_EQ(sample.length(0), 2);
  set.sample(1, sample);
  EXPECT_EQ(sample.length(0), 0);
  EXPECT_EQ(*reinterpret_cast<const std::int32_t*>(sample.data(0)), 4);
  EXPECT_EQ(set.source_of(1), "line 1");
}

TEST(ArrayDatasetTest, RefusesArraysThatDoNotFit) {
  const std::vector<Field> one{{"x", DataType::F32, {2}}};
  expect_refused(kFields, {array_of<float>({1, 2})},
                 "expected an array for each of 2 fields, found 1");
  expect_refused(one, {array_of<double>({1, 2})}, "field 'x': expected f32, found f64");
  expect_refused(one, {array_of<float>({1, 2, 3})}, "expected a multiple of 8 bytes, found 12");
  expect_refused(kFields, {array_of<float>({1, 2}), array_of<std::int64_t>({1, 2})},
                 "field 'label': expected 1 samples as in 'x', found 2");
  expect_refused(one, {array_of<float>({1, 2}, {1})}, "expected 0 lengths, found 1");
  const std::vector<Field> varying{{"x", DataType::F32, {2}, FieldKind::Varying}};
  expect_refused(varying, {array_of<float>({1, 2})}, "expected 1 lengths, found 0");
  expect_refused(varying, {array_of<float>({1, 2}, {3})}, "expected lengths of 0 to 2, found 3");
  expect_refused({{"x", DataType::U8, {0, 0, 3}, FieldKind::AnySizeImage}},
                 {array_of<std::uint8_t>({})}, "found pictures of any size");
}

}  // namespace
}  // namespace lockstep::data

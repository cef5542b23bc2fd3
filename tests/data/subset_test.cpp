#include "lockstep/data/sets/subset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/data/sets/array_dataset.h"

namespace lockstep::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Ten samples: sample i holds 10 * i.
DatasetPtr tens() {
  std::vector<std::int64_t> values;
  for (std::int64_t i = 0; i < 10; ++i) values.push_back(10 * i);
  return std::make_shared<ArrayDataset>(
      std::vector<Field>{{"x", DataType::I64}}, std::vector<Array>{array_of(std::move(values))},
      std::vector<std::string>{"zero", "one"},
      [](std::int64_t index) { return "file " + std::to_string(index); });
}

std::int64_t value_at(const Dataset& dataset, std::int64_t index) {
  Sample sample(dataset.fields());
  dataset.sample(index, sample);
  return *reinterpret_cast<const std::int64_t*>(sample.data(0));
}

TEST(SubsetTest, HoldsTheSamplesOfItsIndicesInTheirOrder) {
  const auto chosen = subset(tens(), std::vector<std::int64_t>{7, 2, 2});
  ASSERT_EQ(chosen->size(), 3);
  EXPECT_EQ(value_at(*chosen, 0), 70);
  EXPECT_EQ(value_at(*chosen, 1), 20);
  EXPECT_EQ(value_at(*chosen, 2), 20);
  EXPECT_EQ(chosen->source_of(0), "file 7");
  EXPECT_THAT(chosen->class_names(), ElementsAre("zero", "one"));
}

TEST(SubsetTest, RefusesAnIndexThatIsNotInTheDataset) {
  for (const std::int64_t index : {-1, 10}) {
    try {
      subset(tens(), std::vector<std::int64_t>{0, index});
      FAIL() << index;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Options);
      EXPECT_THAT(error.what(), HasSubstr("from 0 to 9, found " + std::to_string(index)));
    }
  }
}

TEST(SubsetTest, ARangeEndsBeforeItsEnd) {
  const auto chosen = subset(tens(), IndexRange{.first = 8, .end = 10});
  ASSERT_EQ(chosen->size(), 2);
  EXPECT_EQ(value_at(*chosen, 0), 80);
  EXPECT_EQ(value_at(*chosen, 1), 90);
  EXPECT_EQ(subset(tens(), IndexRange{.first = 3, .end = 3})->size(), 0);
}

TEST(SubsetTest, RefusesARangeThatIsNotInTheDataset) {
  for (const IndexRange range : {IndexRange{-1, 2}, IndexRange{4, 11}, IndexRange{5, 4}}) {
    try {
      subset(tens(), range);
      FAIL() << range.first;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::Options);
      EXPECT_THAT(error.what(), HasSubstr("within 0:10, found " + std::to_string(range.first)));
    }
  }
}

}  // namespace
}  // namespace lockstep::data

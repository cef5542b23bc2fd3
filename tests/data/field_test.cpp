#include "lockstep/data/field.h"

#include <gtest/gtest.h>

#include "lockstep/data/dataset.h"
#include "lockstep/data/sample.h"
#include "tests/support/errors.h"

namespace lockstep::data {
namespace {

using testing::expect_error;

const Field kTokens{"tokens", DataType::I32, {4, 2}, FieldKind::Varying};
const Field kPicture{"picture", DataType::U8, {0, 0, 3}, FieldKind::AnySizeImage};
const Field kLabel{"label", DataType::I64, {}};

TEST(FieldTest, KnowsItsSizeAndSaysWhatItIs) {
  EXPECT_EQ(count_of(kLabel), 1);
  EXPECT_EQ(bytes_of(kLabel), 8U);
  EXPECT_EQ(bytes_of({"image", DataType::F32, {3, 4, 5}}), 240U);
  EXPECT_EQ(describe(kLabel), "label i64 []");
  EXPECT_EQ(describe(kTokens), "tokens i32 [up to 4, 2]");
  EXPECT_EQ(describe(kPicture), "picture u8 [any, any, 3]");
  EXPECT_EQ(name_of(FieldKind::Fixed), "fixed");
  EXPECT_EQ(name_of(FieldKind::Varying), "varying");
  EXPECT_EQ(name_of(FieldKind::AnySizeImage), "any-size-image");
}

TEST(FieldTest, RefusesFieldsThatCannotBeMeant) {
  const auto refuse = [](std::vector<Field> fields, const std::string& text) {
    expect_error([&] { check_fields("here", fields); }, ErrorKind::Options, text);
  };
  refuse({}, "here: expected at least one field, found none");
  refuse({{"", DataType::F32, {1}}}, "found '' as a name");
  refuse({kLabel, kTokens, kLabel}, "found 'label' twice");
  refuse({{"x", DataType::F32, {3, 0}}}, "field 'x' (fixed): expected extents of at least 1");
  refuse({{"x", DataType::F32, {std::int64_t{1} << 39, 4}}}, "extents of at least 1");
  refuse({{"x", DataType::F32, {}, FieldKind::Varying}}, "expected a first extent");
  refuse({{"x", DataType::F32, {0, 0, 3}, FieldKind::AnySizeImage}}, "expected u8 of shape");
  refuse({{"x", DataType::U8, {4, 4, 3}, FieldKind::AnySizeImage}}, "expected u8 of shape");
  EXPECT_NO_THROW(check_fields("here", {kLabel, kTokens, kPicture}));
}

TEST(SampleTest, RefusesWhatWasNotDeclared) {
  Sample sample({kLabel, kTokens, kPicture});
  expect_error([&] { sample.set<float>(0, 1); }, ErrorKind::Options,
               "field 'label': declared as fixed i64, written as fixed f32");
  expect_error([&] { sample.write_varying<std::int64_t>(0, 1); }, ErrorKind::Options,
               "written as varying i64");
  expect_error([&] { sample.write_varying<std::int32_t>(1, 5); }, ErrorKind::Options,
               "field 'tokens': expected at most 4 entries, found 5");
  expect_error([&] { sample.refer(1, &sample); }, ErrorKind::Options, "written as fixed i32");
  expect_error([&] { sample.refer_image(0, nullptr, {1, 1}); }, ErrorKind::Options, "any-size");
  expect_error([&] { sample.refer_varying(1, nullptr, -1); }, ErrorKind::Options, "found -1");
  expect_error(
      [&] {
        sample.write_image(2, {0, 5});
      },
      ErrorKind::Data, "expected a picture of 1 to 65536 pixels on a side, found 0 x 5");
  expect_error([&] { sample.write_image(0, {1, 1}); }, ErrorKind::Options, "any-size-image");
}

TEST(SampleTest, KeepsReferencesAndCopiesApart) {
  Sample sample({kLabel, kTokens, kPicture});
  const std::int64_t label = 7;
  sample.refer(0, &label);
  EXPECT_EQ(static_cast<const void*>(sample.data(0)), &label);
  sample.set<std::int64_t>(0, 8);
  EXPECT_EQ(label, 7);
  EXPECT_EQ(sample.write_varying<std::int32_t>(1, 3).size(), 6U);
  EXPECT_EQ(sample.length(1), 3);
  EXPECT_EQ(sample.write_image(2, {2, 5}).size(), 30U);
  EXPECT_EQ(sample.image(2).size, (ImageSize{2, 5}));
  EXPECT_EQ(sample.image(2).row_bytes, 15);
  EXPECT_NO_THROW(sample.check_complete());
  sample.clear();
  EXPECT_EQ(sample.length(1), 0);
  expect_error([&] { sample.check_complete(); }, ErrorKind::Options,
               "expected a value for field 'label', but Dataset::sample wrote none");
}

TEST(SplitTest, HasNames) {
  EXPECT_EQ(name_of(Split::Train), "train");
  EXPECT_EQ(name_of(Split::Test), "test");
}

}  // namespace
}  // namespace lockstep::data

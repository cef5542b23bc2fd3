#include "lockstep/data/formats/idx.h"

#include <gtest/gtest.h>

#include "tests/data/made_files.h"

namespace lockstep::data {
namespace {

using lockstep::testing::expect_data_error;
using lockstep::testing::idx;

void expect_refused_idx(const std::string& file, const std::vector<std::string>& parts) {
  expect_data_error([&] { read_idx(as_bytes(file), "some/file"); }, parts);
}

TEST(IdxTest, GivesShapeAndElements) {
  const auto file = idx({2, 3}, "abcdef");
  const auto array = read_idx(as_bytes(file), "f");
  EXPECT_EQ(array.type, DataType::U8);
  EXPECT_EQ(array.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(array.offset, 12u);
  EXPECT_EQ(as_text(array.elements), "abcdef");
}

TEST(IdxTest, RefusesEveryTruncation) {
  const auto file = idx({2, 3}, "abcdef");
  for (std::size_t size = 0; size < file.size(); ++size) {
    expect_refused_idx(file.substr(0, size), {"some/file: at byte ", "expected ", "found "});
  }
  expect_refused_idx(file.substr(0, 7),
                     {"at byte 4: expected 2 extents", "end of the file at byte 7"});
  expect_refused_idx(file.substr(0, 14),
                     {"at byte 12: expected 6 bytes (the shape is [2, 3]), found 2"});
}

TEST(IdxTest, RefusesBytesAfterTheLastElement) {
  expect_refused_idx(idx({2, 3}, "abcdefg"), {"at byte 12: expected 6 bytes", "found 7"});
}

TEST(IdxTest, RefusesAForeignFileAndShowsItsFirstBytes) {
  expect_refused_idx("\x1f\x8b\x08\x01", {"at byte 0: expected an IDX file", "found 1f 8b 08 01"});
}

TEST(IdxTest, NamesTheElementTypeThatItDoesNotRead) {
  auto file = idx({1}, "x");
  file[2] = '\x0d';
  expect_refused_idx(file, {"at byte 2: ", "found 0d (32-bit floats)"});
}

TEST(IdxTest, RefusesShapesThatCannotBeMeant) {
  expect_refused_idx(idx({}, ""), {"at byte 3: expected 1 to 8 dimensions, found 0"});
  expect_refused_idx(idx({3, 0}, ""), {"at byte 8: expected an extent of at least 1", "found 0"});
  expect_refused_idx(idx({0xffffffff, 0xffffffff, 0xffffffff}, ""), {"at byte 8: ", "4294967295"});
}

}  // namespace
}  // namespace lockstep::data

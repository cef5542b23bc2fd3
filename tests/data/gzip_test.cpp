#include "lockstep/data/formats/gzip.h"

#include <gtest/gtest.h>

#include "tests/data/made_files.h"

namespace lockstep::data {
namespace {

using lockstep::testing::expect_data_error;
using lockstep::testing::gzip;
using lockstep::testing::pattern;

constexpr std::size_t kMiB = 1 << 20;

void expect_refused_gzip(const std::string& file, const std::vector<std::string>& parts) {
  expect_data_error([&] { unpack_gzip(as_bytes(file), "some/file.gz", kMiB); }, parts);
}

TEST(GzipTest, UnpacksWhatWasPacked) {
  const auto content = pattern(700'000, 1);
  EXPECT_EQ(unpack_gzip(as_bytes(gzip(content)), "f", kMiB), content);
  EXPECT_EQ(unpack_gzip(as_bytes(gzip("")), "f", kMiB), "");
}

TEST(GzipTest, UnpacksEveryMember) {
  EXPECT_EQ(unpack_gzip(as_bytes(gzip("one ") + gzip("") + gzip("two")), "f", kMiB), "one two");
}

TEST(GzipTest, RefusesEveryTruncation) {
  const auto file = gzip("some text that is long enough to be packed, packed, packed");
  for (std::size_t size = 0; size < file.size(); ++size) {
    expect_refused_gzip(file.substr(0, size), {"some/file.gz: at byte "});
  }
  expect_refused_gzip(file.substr(0, 20),
                      {"at byte 20: expected more of the gzip file, found its end"});
}

TEST(GzipTest, RefusesDamageInAnyByteThatCounts) {
  const auto file = gzip(pattern(200, 2));
  // Bytes 4 to 9 are time and system, which nothing depends on.
  for (std::size_t at = 10; at < file.size(); ++at) {
    auto damaged_file = file;
    damaged_file[at] = static_cast<char>(damaged_file[at] ^ 1);
    expect_refused_gzip(damaged_file, {"some/file.gz: at byte "});
  }
  auto other_checksum = file;
  other_checksum[file.size() - 8] ^= 1;
  expect_refused_gzip(other_checksum, {"incorrect data check"});
}

TEST(GzipTest, RefusesWhatFollowsTheLastMember) {
  const auto file = gzip("text");
  expect_refused_gzip(file + "tail",
                      {"at byte " + std::to_string(file.size()), "found 74 61 69 6c"});
}

TEST(GzipTest, EndsWithTheZerosAfterTheLastMember) {
  const auto file = gzip("one ") + gzip("two");
  EXPECT_EQ(unpack_gzip(as_bytes(file + '\0'), "f", kMiB), "one two");
  EXPECT_EQ(unpack_gzip(as_bytes(file + std::string(700, '\0')), "f", kMiB), "one two");
  expect_refused_gzip(file + std::string(700, '\0') + "x",
                      {"at byte " + std::to_string(file.size()), "found 00 00"});
}

TEST(GzipTest, RefusesAForeignFileAndShowsItsFirstBytes) {
  expect_refused_gzip("PK\x03\x04", {"at byte 0: expected a gzip file (1f 8b), found 50 4b 03 04"});
  expect_refused_gzip("", {"found nothing"});
}

TEST(GzipTest, StopsAtTheLimit) {
  expect_refused_gzip(gzip(std::string(kMiB + 1, 'x')),
                      {"expected at most 1048576 bytes once unpacked"});
  EXPECT_EQ(unpack_gzip(as_bytes(gzip(std::string(kMiB, 'x'))), "f", kMiB).size(), kMiB);
}

}  // namespace
}  // namespace lockstep::data

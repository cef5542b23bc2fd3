#include "lockstep/data/formats/archive.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/data/made_files.h"

namespace lockstep::data {
namespace {

using lockstep::testing::expect_data_error;
using lockstep::testing::gzip;
using lockstep::testing::pattern;
using lockstep::testing::tar;

ArchiveOptions everything() {
  return {.wanted = [](std::string_view) { return true; }, .most_bytes = 1 << 20};
}

void expect_refused_archive(const std::string& file, const std::vector<std::string>& parts) {
  expect_data_error([&] { read_archive(as_bytes(file), "some/a.tar.gz", everything()); }, parts);
}

TEST(ArchiveTest, ReadsPackedAndPlainArchives) {
  const auto one = pattern(70'000, 1);
  const auto archive = tar({{"folder/one", one}, {"./two", "2"}, {"none", ""}});
  for (const auto& file : {archive, gzip(archive)}) {
    const auto files = read_archive(as_bytes(file), "f", everything());
    ASSERT_EQ(files.size(), 3u);
    EXPECT_EQ(files[0].name, "folder/one");
    EXPECT_EQ(files[0].content, one);
    EXPECT_EQ(files[1].name, "two");
    EXPECT_EQ(files[1].content, "2");
    EXPECT_EQ(files[2].content, "");
  }
}

TEST(ArchiveTest, ReadsOnlyWhatIsWanted) {
  const auto file = gzip(tar({{"a", "1"}, {"b", "2"}, {"c", "3"}}));
  const auto files = read_archive(as_bytes(file), "f",
                                  {.wanted = [](std::string_view name) { return name == "b"; }});
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].content, "2");
}

TEST(ArchiveTest, RefusesEveryTruncationOfAPackedArchive) {
  const auto file = gzip(tar({{"a", pattern(1000, 1)}, {"b", pattern(600, 2)}}));
  for (std::size_t size = 0; size < file.size(); size += 7) {
    expect_refused_archive(file.substr(0, size), {"some/a.tar.gz"});
  }
  expect_refused_archive(file.substr(0, file.size() - 1), {"some/a.tar.gz: at byte ", "expected "});
}

TEST(ArchiveTest, RefusesAPlainArchiveThatEndsInsideAFile) {
  const auto file = tar({{"a", pattern(1000, 1)}});
  expect_refused_archive(file.substr(0, 700), {"some/a.tar.gz: at byte ", "Truncated"});
  expect_refused_archive(file.substr(0, 300), {"some/a.tar.gz: at byte "});
}

TEST(ArchiveTest, NoticesDamageByTheChecksumOfThePacking) {
  auto file = gzip(tar({{"a", "1"}}));
  file[file.size() - 8] ^= 1;
  expect_refused_archive(file, {"some/a.tar.gz: at byte ", "incorrect data check"});
}

TEST(ArchiveTest, RefusesADamagedHeader) {
  auto file = tar({{"a", pattern(1000, 1)}});
  file[130] = '7';  // a digit of the size, which the header's checksum covers
  expect_refused_archive(file, {"some/a.tar.gz: at byte 0: expected a sound tar archive"});
}

TEST(ArchiveTest, RefusesForeignFiles) {
  expect_refused_archive("",
                         {"some/a.tar.gz: at byte 0: expected a tar archive, found an empty file"});
  expect_refused_archive(pattern(5000, 3),
                         {"some/a.tar.gz: at byte 0: expected a sound tar archive"});
  expect_refused_archive("PK\x03\x04 a zip file", {"some/a.tar.gz: at byte 0: "});
  expect_refused_archive(gzip(pattern(5000, 3)), {"some/a.tar.gz, unpacked: at byte 0: "});
}

/// A GNU tar of one sparse file 'a': each part is an offset and the bytes that are stored there.
std::string sparse_tar(std::size_t size,
                       const std::vector<std::pair<std::size_t, std::string>>& parts) {
  std::string stored;
  for (const auto& part : parts) stored += part.second;
  auto file = tar({{"a", stored}});
  const auto put = [&](std::size_t at, std::size_t number) {
    file.replace(at, 12, fmt::format("{:011o}", number) + '\0');
  };
  file[156] = 'S';
  file.replace(257, 8, std::string_view("ustar  \0", 8));
  file.replace(345, 167, 167, '\0');
  for (std::size_t i = 0; i < parts.size(); ++i) {
    put(386 + 24 * i, parts[i].first);
    put(398 + 24 * i, parts[i].second.size());
  }
  put(483, size);
  file.replace(148, 8, 8, ' ');
  const auto header = as_bytes(file).first(512);
  file.replace(148, 8,
               fmt::format("{:06o}", std::accumulate(header.begin(), header.end(), 0)) +
                   std::string("\0 ", 2));
  return file;
}

TEST(ArchiveTest, RefusesFilesWithHoles) {
  const std::vector<std::string> refused{"some/a.tar.gz: at byte 512: ", "file 'a' without holes"};
  expect_refused_archive(sparse_tar(2048, {{1024, pattern(512, 1)}}), refused);
  // Parts in no order are ones that libarchive reports as "try again".
  expect_refused_archive(sparse_tar(2048, {{1024, pattern(512, 1)}, {0, pattern(512, 2)}}),
                         refused);
  expect_refused_archive(sparse_tar(std::size_t{3} << 30, {{(std::size_t{3} << 30) - 512, "x"}}),
                         refused);
}

TEST(ArchiveTest, StopsAtTheLimit) {
  const auto large = tar({{"a", std::string((1 << 20) + 1, 'x')}});
  expect_refused_archive(large,
                         {"expected at most 1048576 bytes once unpacked", "'a' of 1048577 bytes"});
  expect_refused_archive(gzip(large), {"expected at most 1048576 bytes once unpacked"});
}

}  // namespace
}  // namespace lockstep::data

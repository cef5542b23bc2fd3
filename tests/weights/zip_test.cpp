#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/file.h"
#include "lockstep/weights/zip_reader.h"
#include "lockstep/weights/zip_writer.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"
#include "tests/weights/made_tensors.h"

namespace lockstep::weights {
namespace {

using data::as_bytes;
using data::as_text;
using testing::bytes_of_text;
using testing::expect_error;

using Entries = std::vector<std::pair<std::string, std::string>>;

void write_zip(const std::string& path, const Entries& entries,
               ZipWriter::Records64 records = ZipWriter::Records64::WhereNeeded) {
  PartialFile file(path);
  ZipWriter zip(file, records);
  for (const auto& [name, content] : entries) zip.add(name, bytes_of_text(content));
  zip.finish();
  file.publish();
}

std::string zip_of(const Entries& entries,
                   ZipWriter::Records64 records = ZipWriter::Records64::WhereNeeded) {
  const testing::ScratchFolder folder;
  write_zip(folder.path() + "/z", entries, records);
  return read_file(folder.path() + "/z");
}

void expect_refused_zip(const std::string& file, const std::string& text) {
  expect_error(
      [&] {
        const ZipReader zip(as_bytes(file), "w");
        zip.read("one");
        zip.read("two");
      },
      ErrorKind::Data, text);
}

const Entries kTwo{{"x/one", "first content"}, {"x/two", std::string(100, 'b')}};

class ZipTest : public ::testing::TestWithParam<ZipWriter::Records64> {};

TEST_P(ZipTest, GivesBackWhatWasWrittenAligned) {
  const auto file = zip_of(kTwo, GetParam());
  EXPECT_TRUE(is_zip(as_bytes(file)));
  const ZipReader zip(as_bytes(file), "w");
  EXPECT_EQ(zip.folder(), "x/");
  EXPECT_EQ(as_text(zip.read("one")), kTwo[0].second);
  EXPECT_EQ(as_text(zip.read("two")), kTwo[1].second);
  for (const auto* const name : {"one", "two"}) {
    EXPECT_EQ((as_text(zip.read(name)).data() - file.data()) % 64, 0) << name;
  }
  EXPECT_TRUE(zip.has("one"));
  EXPECT_FALSE(zip.has("three"));
  EXPECT_TRUE(zip.has_folder("tw"));
  EXPECT_FALSE(zip.has_folder("z"));
}

TEST_P(ZipTest, IsReadByPython) {
  const testing::ScratchFolder folder;
  const auto path = folder.path() + "/z";
  write_zip(path, kTwo, GetParam());
  const auto result = testing::run(
      {"/usr/bin/python3", "-c",
       "import sys, zipfile\nz = zipfile.ZipFile(sys.argv[1])\nassert z.testzip() is None\n"
       "print([(i.filename, i.file_size) for i in z.infolist()], z.read('x/one').decode())",
       path});
  if (result.exit_code == 127) GTEST_SKIP() << "python3 is not installed";
  EXPECT_EQ(result.out, "[('x/one', 13), ('x/two', 100)] first content\n") << result.err;
}

TEST_P(ZipTest, RefusesEveryTruncation) {
  const auto file = zip_of(kTwo, GetParam());
  for (std::size_t size = 0; size < file.size(); ++size)
    expect_refused_zip(file.substr(0, size), "w: ");
}

TEST_P(ZipTest, NoticesOrSurvivesEveryFlip) {
  const auto file = zip_of(kTwo, GetParam());
  int accepted = 0;
  for (std::size_t bit = 0; bit < 8 * file.size(); ++bit) {
    auto damaged = file;
    damaged[bit / 8] ^= static_cast<char>(1 << bit % 8);
    try {
      const ZipReader zip(as_bytes(damaged), "w");
      EXPECT_EQ(as_text(zip.read("one")), kTwo[0].second);
      EXPECT_EQ(as_text(zip.read("two")), kTwo[1].second);
      ++accepted;
    } catch (const Error& error) {
      ASSERT_EQ(error.kind(), ErrorKind::Data);
    }
  }
  EXPECT_GT(accepted, 0);  // times, versions, padding
}

INSTANTIATE_TEST_SUITE_P(BothSizesOfRecords, ZipTest,
                         ::testing::Values(ZipWriter::Records64::WhereNeeded,
                                           ZipWriter::Records64::Everywhere),
                         [](const auto& test) {
                           return test.param == ZipWriter::Records64::Everywhere ? "Large"
                                                                                 : "Small";
                         });

TEST(ZipReaderTest, HoldsMoreEntriesThanASmallDirectoryCounts) {
  Entries entries;
  for (int i = 0; i < 70000; ++i) entries.emplace_back("x/" + std::to_string(i), "");
  const auto file = zip_of(entries);
  const ZipReader zip(as_bytes(file), "w");
  EXPECT_TRUE(zip.has("69999"));
}

TEST(ZipReaderTest, SaysWhatIsWrong) {
  const auto file = zip_of(kTwo);
  expect_refused_zip("PK\x03\x04",
                     "w: at byte 4: expected the directory that ends a zip file, found none");
  expect_error([&] { ZipReader(as_bytes(file), "w").read("three"); }, ErrorKind::Data,
               "w: expected an entry 'x/three' in the zip file, found none");
  auto damaged = file;
  damaged[damaged.find("first")] = 'F';
  expect_refused_zip(damaged, "w: entry 'x/one': expected the checksum ");
  damaged = file;
  damaged[4 + 26] = 'y';  // the name before the content
  expect_refused_zip(damaged, "expected entry 'x/one', found 'y/one'");
  const auto central = file.find("PK\x01\x02");
  damaged = file;
  damaged[central + 10] = 8;
  expect_refused_zip(
      damaged,
      "expected entry 'x/one' to be stored as it is, as PyTorch writes it, found packing method 8");
  damaged = file;
  damaged[central + 8] = 1;
  expect_refused_zip(damaged, "expected entry 'x/one' to be readable, found that it is encrypted");
  damaged = file;
  damaged[central + 24] = damaged[central + 20] = '\xf0';
  damaged[central + 25] = damaged[central + 21] = '\x7f';
  expect_refused_zip(damaged, "expected entry 'x/one' to fit into the file, found 32752 bytes");
  const auto end = file.find("PK\x05\x06");
  damaged = file;
  damaged[end + 10] = 3;
  expect_refused_zip(damaged,
                     "expected 3 entries of different names in the zip directory, found 2");
  damaged = file;
  damaged[end + 12] = damaged[end + 13] = '\xff';
  expect_refused_zip(damaged, "expected a zip directory of 65535 bytes");
  damaged = file;
  damaged[end + 10] = damaged[end + 11] = '\xff';
  expect_refused_zip(damaged, "expected the directory of a large zip file before it, found none");
  damaged = file;
  damaged[central + 2] = 'x';
  expect_refused_zip(damaged, "expected an entry of the zip directory, found something else");
  damaged = file;
  damaged[central + 42] = 1;
  expect_refused_zip(damaged, "expected entry 'x/one', found something else");
}

}  // namespace
}  // namespace lockstep::weights

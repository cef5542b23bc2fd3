#include "lockstep/data/sets/cifar.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "lockstep/base/file.h"
#include "tests/data/made_files.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;
using lockstep::testing::expect_data_error;
using lockstep::testing::fixture;
using lockstep::testing::gzip;
using lockstep::testing::pattern;
using lockstep::testing::ScratchFolder;
using lockstep::testing::tar;
using lockstep::testing::thrown_by;

using NamedFiles = std::vector<std::pair<std::string, std::string>>;

constexpr const char* kNames10 =
    "airplane\nautomobile\nbird\ncat\ndeer\ndog\nfrog\nhorse\nship\ntruck\n\n";

struct CifarImage {
  std::string pixels;
  std::int64_t label = -1;
  std::int64_t coarse_label = -1;
  bool operator==(const CifarImage&) const = default;
};

CifarImage picture(const Dataset& set, std::int64_t index) {
  Sample sample(set.fields());
  set.sample(index, sample);
  CifarImage result;
  result.pixels.assign(reinterpret_cast<const char*>(sample.data(0)), 3072);
  std::memcpy(&result.label, sample.data(1), sizeof result.label);
  if (set.fields().size() > 2) std::memcpy(&result.coarse_label, sample.data(2), 8);
  return result;
}

/// Pixel by pixel, unlike the reader's own loop: red, green and blue are a plane each in files.
std::string channels_last(const std::string& planes) {
  std::string pixels;
  for (std::size_t i = 0; i < 1024; ++i) {
    for (std::size_t channel = 0; channel < 3; ++channel) pixels += planes[1024 * channel + i];
  }
  return pixels;
}

/// What protocol 2 of Python 2 makes of a batch, a number of opcodes at a time.
std::string pickled_batch(const std::vector<std::pair<std::string, std::vector<int>>>& labels,
                          const std::string& planes) {
  using namespace std::string_literals;
  const auto number = [](std::size_t value) {
    std::string bytes;
    for (int i = 0; i < 4; ++i) bytes += static_cast<char>(value >> (8 * i));
    return bytes;
  };
  const auto text = [](const std::string& word) {
    return "U" + std::string(1, static_cast<char>(word.size())) + word;
  };
  std::string file = "\x80\x02}(" + text("data") +
                     "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\0\x85"s + text("b") +
                     "\x87R(K\x01J" + number(planes.size() / 3072) + "J" + number(3072) +
                     "\x86"
                     "cnumpy\ndtype\n" +
                     text("u1") + "K\0K\x01\x87R"s + "\x89T" + number(planes.size()) + planes +
                     "tb";
  for (const auto& [key, values] : labels) {
    file += text(key) + "](";
    for (const auto value : values) file += "J" + number(static_cast<std::size_t>(value));
    file += "e";
  }
  return file + "u.";
}

std::string pickled_names(const std::string& key, int count) {
  std::string file = "}U" + std::string(1, static_cast<char>(key.size())) + key + "(";
  for (int i = 0; i < count; ++i) file += fmt::format("S'class {}'\n", i);
  return file + "ls.";
}

std::string with_labels(const std::string& labels, const std::string& planes) {
  return labels + planes;
}

NamedFiles binary10(int pictures = 2) {
  NamedFiles files;
  for (int batch = 1; batch <= 6; ++batch) {
    std::string content;
    for (int i = 0; i < pictures; ++i) {
      const int label = (batch * 3 + i) % 10;
      content += with_labels(std::string(1, static_cast<char>(label)),
                             pattern(3072, static_cast<unsigned>(10 * batch + i)));
    }
    files.emplace_back(batch == 6 ? "test_batch.bin" : fmt::format("data_batch_{}.bin", batch),
                       content);
  }
  files.emplace_back("batches.meta.txt", kNames10);
  return files;
}

/// The same pictures in the Python layout.
NamedFiles python10() {
  NamedFiles files;
  for (int batch = 1; batch <= 6; ++batch) {
    const auto salt = static_cast<unsigned>(10 * batch);
    files.emplace_back(batch == 6 ? "test_batch" : fmt::format("data_batch_{}", batch),
                       pickled_batch({{"labels", {batch * 3 % 10, (batch * 3 + 1) % 10}}},
                                     pattern(3072, salt) + pattern(3072, salt + 1)));
  }
  files.emplace_back("batches.meta", pickled_names("label_names", 10));
  return files;
}

NamedFiles binary100() {
  NamedFiles files;
  for (const auto* const name : {"train.bin", "test.bin"}) {
    files.emplace_back(name, with_labels("\x13\x63", pattern(3072, 1)) +
                                 with_labels("\x02\x2a", pattern(3072, 2)));
  }
  std::string names;
  for (int i = 0; i < 100; ++i) names += fmt::format("class {}\n", i);
  files.emplace_back("fine_label_names.txt", names);
  return files;
}

NamedFiles python100() {
  NamedFiles files;
  for (const auto* const name : {"train", "test"}) {
    files.emplace_back(
        name, pickled_batch({{"fine_labels", {0x63, 0x2a}}, {"coarse_labels", {0x13, 0x02}}},
                            pattern(3072, 1) + pattern(3072, 2)));
  }
  files.emplace_back("meta", pickled_names("fine_label_names", 100));
  return files;
}

std::string packed(const std::string& folder, const NamedFiles& files) {
  NamedFiles inside;
  for (const auto& [name, content] : files) inside.emplace_back(folder + "/" + name, content);
  std::reverse(inside.begin(), inside.end());  // archives have an order of their own
  return gzip(tar(inside));
}

class CifarTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) const {
    fs::create_directories((fs::path(folder_.path()) / name).parent_path());
    folder_.write(name, content);
  }
  void write(const std::string& folder, const NamedFiles& files) const {
    for (const auto& [name, content] : files) write(folder + "/" + name, content);
  }
  std::string path(const std::string& name = "") const { return folder_.path() + "/" + name; }
  DatasetPtr read10(Split split = Split::Train) const {
    return find_cifar10(folder_.path(), split).read();
  }
  DatasetPtr read100() const { return find_cifar100(folder_.path(), Split::Train).read(); }
  void expect_refused10(const std::vector<std::string>& parts) const {
    expect_data_error([&] { read10(); }, parts);
  }
  void expect_refused100(const std::vector<std::string>& parts) const {
    expect_data_error([&] { read100(); }, parts);
  }

  ScratchFolder folder_;
};

void expect_the_pictures10(const Dataset& set) {
  ASSERT_EQ(set.size(), 10);
  ASSERT_EQ(set.fields().size(), 2u);
  EXPECT_EQ(describe(set.fields()[0]), "image u8 [32, 32, 3]");
  for (int i = 0; i < 10; ++i) {
    const int batch = i / 2 + 1;
    const auto found = picture(set, i);
    EXPECT_EQ(found.label, (batch * 3 + i % 2) % 10);
    EXPECT_TRUE(found.pixels ==
                channels_last(pattern(3072, static_cast<unsigned>(10 * batch + i % 2))))
        << "picture " << i;
  }
  EXPECT_EQ(set.class_names().size(), 10u);
}

TEST_F(CifarTest, ReadsEveryLayoutOfCifar10) {
  const std::vector<std::pair<std::string, NamedFiles>> layouts{
      {"cifar-10-batches-bin", binary10()}, {"cifar-10-batches-py", python10()}};
  for (const auto& [folder, files] : layouts) {
    SCOPED_TRACE(folder);
    write(folder, files);
    expect_the_pictures10(*read10());
    expect_the_pictures10(*find_cifar10(path(folder), Split::Train).read());
    EXPECT_EQ(read10(Split::Test)->size(), 2);
    fs::remove_all(path(folder));
    write("below/" + folder, files);
    expect_the_pictures10(*read10());
    fs::remove_all(path("below"));
    const auto archive =
        folder.ends_with("py") ? "cifar-10-python.tar.gz" : "cifar-10-binary.tar.gz";
    write(archive, packed(folder, files));
    const auto found = find_cifar10(folder_.path(), Split::Train);
    EXPECT_EQ(found.files, std::vector<fs::path>{path(archive)});
    expect_the_pictures10(*found.read());
    EXPECT_EQ(read10(Split::Test)->size(), 2);
    fs::remove(path(archive));
  }
}

TEST_F(CifarTest, FindsAnArchiveThatIsNoLongerPacked) {
  NamedFiles inside;
  for (const auto& [name, content] : binary10()) {
    inside.emplace_back("cifar-10-batches-bin/" + name, content);
  }
  write("cifar-10-binary.tar", tar(inside));
  expect_the_pictures10(*read10());
}

TEST_F(CifarTest, ReadsEveryLayoutOfCifar100) {
  const std::vector<std::pair<std::string, NamedFiles>> layouts{{"cifar-100-binary", binary100()},
                                                                {"cifar-100-python", python100()}};
  for (const auto& [folder, files] : layouts) {
    for (const bool is_packed : {false, true}) {
      SCOPED_TRACE(folder);
      is_packed ? write(folder + ".tar.gz", packed(folder, files)) : write(folder, files);
      const auto set = read100();
      ASSERT_EQ(set->size(), 2);
      EXPECT_EQ(set->fields()[2].name, "coarse_label");
      EXPECT_EQ(picture(*set, 0), (CifarImage{channels_last(pattern(3072, 1)), 99, 19}));
      EXPECT_EQ(picture(*set, 1), (CifarImage{channels_last(pattern(3072, 2)), 42, 2}));
      ASSERT_EQ(set->class_names().size(), 100u);
      EXPECT_EQ(set->class_names()[42], "class 42");
      fs::remove_all(path(folder));
      fs::remove(path(folder + ".tar.gz"));
    }
  }
}

TEST_F(CifarTest, PrefersTheBinaryLayoutAndTakesTheNextWhereItIsIncomplete) {
  write("cifar-10-batches-py", python10());
  write("cifar-10-binary.tar.gz", packed("cifar-10-batches-bin", binary10()));
  write("cifar-10-batches-bin", binary10());
  const auto first_file = [&] { return find_cifar10(path(), Split::Train).files[0]; };
  EXPECT_EQ(first_file(), path("cifar-10-batches-bin/data_batch_1.bin"));
  fs::remove(path("cifar-10-batches-bin/data_batch_4.bin"));
  EXPECT_EQ(first_file(), path("cifar-10-batches-py/data_batch_1"));
  fs::remove(path("cifar-10-batches-py/data_batch_5"));
  EXPECT_EQ(first_file(), path("cifar-10-binary.tar.gz"));
  fs::remove(path("cifar-10-binary.tar.gz"));
  expect_data_error([&] { find_cifar10(path(), Split::Train); },
                    {"cifar-10-batches-bin without data_batch_4.bin"});
}

TEST_F(CifarTest, TellsWhereASampleComesFrom) {
  write("cifar-10-batches-bin", binary10());
  const auto set = read10();
  EXPECT_EQ(set->source_of(0), path("cifar-10-batches-bin/data_batch_1.bin") + ", picture 0");
  EXPECT_EQ(set->source_of(9), path("cifar-10-batches-bin/data_batch_5.bin") + ", picture 1");
}

TEST_F(CifarTest, NeedsNoNamesOfClasses) {
  write("cifar-10-batches-bin", binary10());
  fs::remove(path("cifar-10-batches-bin/batches.meta.txt"));
  EXPECT_TRUE(read10()->class_names().empty());
  write("cifar-10-batches-bin/batches.meta.txt", "cat\ndog\n");
  expect_refused10({path("cifar-10-batches-bin/batches.meta.txt") +
                    ": at byte 0: expected names of 10 classes, found 2"});
}

TEST_F(CifarTest, SaysWhatIsMissingAndWhereToGetIt) {
  const auto error = thrown_by([&] { find_cifar10(path("none"), Split::Train); });
  EXPECT_EQ(error.kind(), ErrorKind::Data);
  for (const auto* const part :
       {"cifar10: expected one of cifar-10-batches-bin/, cifar-10-binary.tar.gz, "
        "cifar-10-batches-py/, cifar-10-python.tar.gz in ",
        "/none", "no such folder"}) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(part));
  }
  EXPECT_THAT(error.hint(), ::testing::HasSubstr("https://www.cs.toronto.edu/~kriz/cifar.html"));
  EXPECT_THAT(error.hint(), ::testing::HasSubstr("into " + path("none")));
  EXPECT_THAT(error.hint(), ::testing::HasSubstr("--dataset synthetic"));
  expect_data_error([&] { find_cifar100(path(), Split::Test); },
                    {"cifar100: expected one of cifar-100-binary/", "found none"});
  expect_data_error([] { find_cifar10("", Split::Train); }, {"found none given"});
}

TEST_F(CifarTest, RefusesABinaryFileThatIsCut) {
  const auto files = binary10();
  write("cifar-10-batches-bin", files);
  for (const std::size_t size : {0, 1, 3072, 3074, 6145}) {
    write("cifar-10-batches-bin/data_batch_3.bin", files[2].second.substr(0, size));
    expect_refused10(
        {path("cifar-10-batches-bin/data_batch_3.bin") +
         fmt::format(": at byte {}: expected records of 3073 bytes", size / 3073 * 3073)});
  }
  // Between two records nothing in the file itself tells.
  write("cifar-10-batches-bin/data_batch_3.bin", files[2].second.substr(0, 3073));
  expect_refused10({path("cifar-10-batches-bin/data_batch_3.bin") +
                    ": at byte 3073: expected 2 pictures, as in data_batch_1.bin, found 1"});
}

TEST_F(CifarTest, RefusesAPickleOfFewerPicturesThanTheOthers) {
  write("cifar-10-batches-py", python10());
  const auto batch = pickled_batch({{"labels", {4}}}, pattern(3072, 1));
  write("cifar-10-batches-py/data_batch_5", batch);
  expect_refused10({fmt::format(
      "data_batch_5: at byte {}: expected 2 pictures, as in data_batch_1, found 1", batch.size())});
}

TEST_F(CifarTest, RefusesLabelsOutOfRange) {
  auto files = binary10();
  write("cifar-10-batches-bin", files);
  files[1].second[3073] = 10;
  write("cifar-10-batches-bin/data_batch_2.bin", files[1].second);
  expect_refused10({path("cifar-10-batches-bin/data_batch_2.bin") +
                    ": at byte 3073: expected a label of 0 to 9, found 10"});
  auto fine = binary100();
  fine[0].second[1] = 100;
  write("cifar-100-binary", fine);
  expect_refused100({"train.bin: at byte 1: expected a label of 0 to 99, found 100"});
  fine[0].second[0] = 20;
  write("cifar-100-binary", fine);
  expect_refused100({"train.bin: at byte 0: expected a label of 0 to 19, found 20"});
  write("cifar-10-batches-py", python10());
  fs::remove_all(path("cifar-10-batches-bin"));
  write("cifar-10-batches-py/data_batch_1", pickled_batch({{"labels", {10}}}, pattern(3072, 1)));
  expect_refused10({"data_batch_1: at byte 3", "expected a label of 0 to 9, found 10"});
}

TEST_F(CifarTest, RefusesTheOtherSetsFiles) {
  const auto hundred = binary100()[0].second;
  write("cifar-10-batches-bin", binary10());
  write("cifar-10-batches-bin/data_batch_1.bin", hundred);
  const auto error = thrown_by([&] { read10(); });
  EXPECT_THAT(error.what(), ::testing::HasSubstr("at byte 6146: expected records of 3073 bytes"));
  EXPECT_EQ(error.hint(), "its size is that of a file of cifar100");
  write("cifar-100-binary", binary100());
  write("cifar-100-binary/train.bin", binary10()[0].second);
  expect_refused100({"train.bin: at byte 3074: expected records of 3074 bytes"});
  fs::remove_all(path("cifar-10-batches-bin"));
  write("cifar-10-batches-py", python10());
  write("cifar-10-batches-py/data_batch_1", python100()[0].second);
  expect_refused10(
      {"data_batch_1: at byte 2: expected a dict with 'labels', found 'data', "
       "'fine_labels', 'coarse_labels'"});
}

TEST_F(CifarTest, RefusesPicklesOfAnotherShape) {
  write("cifar-10-batches-py", python10());
  const auto with_batch = [&](const std::string& content) {
    write("cifar-10-batches-py/data_batch_2", content);
  };
  with_batch(pickled_batch({{"labels", {1, 2}}}, pattern(3072, 1)));
  expect_refused10({"data_batch_2: at byte ", "expected 1 entries in 'labels', found 2"});
  with_batch("N.");
  expect_refused10({"data_batch_2: at byte 0: expected a dict with 'data', found none"});
  with_batch("}.");
  expect_refused10({"expected a dict with 'data', found an empty one"});
  with_batch("}U\x04\x1b[2JK\x01s.");
  expect_refused10({"expected a dict with 'data', found '?[2J'"});
  with_batch(
      "}U\x04"
      "dataK\x01s.");
  expect_refused10({"at byte 7: expected an array as 'data', found an integer"});
  auto of_names = pickled_batch({{"labels", {1}}}, pattern(3072, 1));
  of_names.replace(of_names.size() - 8, 5,
                   "U\x03"
                   "abc");
  with_batch(of_names);
  expect_refused10({"expected integers in 'labels', found a string"});
  with_batch(fixture("pickles/system_call"));
  expect_refused10({"data_batch_2: at byte 0: ", "'os.system'"});
}

TEST_F(CifarTest, ReadsPicklesThatPython3StoredAgain) {
  write("cifar-10-batches-py", python10());
  const auto planes = fixture("pickles/data.raw");
  for (const auto* const name : {"p0", "p2", "p3", "p4", "p5", "bytes_keys", "fortran"}) {
    SCOPED_TRACE(name);
    write("cifar-10-batches-py/test_batch", fixture(std::string("pickles/") + name));
    const auto set = read10(Split::Test);
    ASSERT_EQ(set->size(), 2);
    EXPECT_EQ(picture(*set, 0), (CifarImage{channels_last(planes.substr(0, 3072)), 7, -1}));
    EXPECT_EQ(picture(*set, 1), (CifarImage{channels_last(planes.substr(3072)), 3, -1}));
  }
}

TEST_F(CifarTest, RefusesDamagedArchives) {
  const auto archive = packed("cifar-10-batches-bin", binary10());
  write("cifar-10-binary.tar.gz", archive.substr(0, archive.size() - 4));
  expect_refused10({path("cifar-10-binary.tar.gz") + ": at byte ", "found its end"});
  auto files = binary10();
  files.erase(files.begin());
  write("cifar-10-binary.tar.gz", packed("cifar-10-batches-bin", files));
  expect_refused10(
      {"expected a file 'cifar-10-batches-bin/data_batch_1.bin' in it, found "
       "'cifar-10-batches-bin/batches.meta.txt', "
       "'cifar-10-batches-bin/test_batch.bin', "});
  write("cifar-10-binary.tar.gz", gzip(tar({{"other\x1b/file", ""}})));
  expect_refused10({"data_batch_1.bin' in it, found 'other?/file'"});
  write("cifar-10-binary.tar.gz", gzip(tar({})));
  expect_refused10({"data_batch_1.bin' in it, found no files"});
  files = binary10();
  files[3].second.pop_back();
  write("cifar-10-binary.tar.gz", packed("cifar-10-batches-bin", files));
  expect_refused10({path("cifar-10-binary.tar.gz") +
                    ": cifar-10-batches-bin/data_batch_4.bin: "
                    "at byte 3073: expected records of 3073 bytes, found 3072 bytes"});
}

TEST_F(CifarTest, KnowsPublishedFilesByTheirChecksum) {
  write("cifar-10-batches-bin", binary10());
  auto verification = find_cifar10(path(), Split::Train).verify();
  EXPECT_FALSE(verification.all_known);  // nobody published checksums of these
  EXPECT_TRUE(verification.differing.empty());
  fs::remove_all(path("cifar-10-batches-bin"));
  write("cifar-10-batches-py", python10());
  verification = find_cifar10(path(), Split::Test).verify();
  EXPECT_FALSE(verification.all_known);
  EXPECT_THAT(verification.differing,
              ::testing::ElementsAre(path("cifar-10-batches-py/test_batch"),
                                     path("cifar-10-batches-py/batches.meta")));
}

TEST(CifarSampleTest, IsTheSameInBothLayouts) {
  if (!fs::exists(CIFAR_SAMPLE)) GTEST_SKIP() << "no sample of CIFAR-10 at " << CIFAR_SAMPLE;
  for (const auto split : {Split::Train, Split::Test}) {
    const fs::path sample = CIFAR_SAMPLE;
    const auto binary = find_cifar10(sample / "cifar-10-batches-bin", split).read();
    const auto python = find_cifar10(sample / "cifar-10-batches-py", split).read();
    ASSERT_EQ(binary->size(), split == Split::Train ? 1000 : 200);
    ASSERT_EQ(python->size(), binary->size());
    EXPECT_EQ(python->class_names(), binary->class_names());
    EXPECT_EQ(binary->class_names()[6], "frog");
    for (std::int64_t i = 0; i < binary->size(); ++i) {
      ASSERT_TRUE(picture(*binary, i) == picture(*python, i)) << "picture " << i;
    }
  }
}

}  // namespace
}  // namespace lockstep::data

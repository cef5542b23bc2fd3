#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/data/pack/pack_dataset.h"
#include "lockstep/data/pack/pack_store.h"
#include "lockstep/data/pack/pack_writer.h"
#include "lockstep/data/sets/synthetic.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::data {
namespace {

using testing::expect_error;
using testing::ScratchFolder;

std::filesystem::path path_of(const ScratchFolder& folder) {
  return folder.path();
}

/// Every kind of field, each sample of another size.
class Mixed : public Dataset {
 public:
  explicit Mixed(std::int64_t size)
      : Dataset({{"picture", DataType::U8, {0, 0, 3}, FieldKind::AnySizeImage},
                 {"tokens", DataType::I32, {7, 2}, FieldKind::Varying},
                 {"weight", DataType::F64, {3}},
                 {"label", DataType::I64, {}}},
                {"cat", "dog"}),
        size_(size) {}

  std::int64_t size() const override { return size_; }
  void sample(std::int64_t index, Sample& sample) const override {
    auto value = static_cast<std::uint8_t>(index);
    for (auto& pixel : sample.write_image(0, {index % 5 + 1, index % 3 + 1})) pixel = value++;
    auto token = static_cast<std::int32_t>(index * 1000);
    for (auto& entry : sample.write_varying<std::int32_t>(1, index % 8)) entry = token++;
    const auto weights = sample.write<double>(2);
    weights[0] = weights[1] = static_cast<double>(index) / 7;
    weights[2] = -1;
    sample.set<std::int64_t>(3, index % 2);
  }

 private:
  std::int64_t size_;
};

std::string pack_of(const Dataset& set, const ScratchFolder& folder,
                    const std::string& name = "set.pack") {
  const auto path = path_of(folder) / name;
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  write_pack(file.get(), path, set, {.name = "test", .fingerprint = "abc", .threads = 3});
  return path;
}

/// All bytes of a sample, with lengths and sizes.
std::string content(const Dataset& set, std::int64_t index) {
  Sample sample(set.fields());
  set.sample(index, sample);
  std::string all;
  for (std::size_t field = 0; field < set.fields().size(); ++field) {
    const auto& declared = set.fields()[field];
    auto bytes = bytes_of(declared);
    if (declared.kind == FieldKind::Varying) {
      all += std::to_string(sample.length(field)) + ":";
      bytes = bytes / static_cast<std::size_t>(declared.shape[0]) *
              static_cast<std::size_t>(sample.length(field));
    } else if (declared.kind == FieldKind::AnySizeImage) {
      const auto image = sample.image(field);
      all += std::to_string(image.size.height) + "x" + std::to_string(image.size.width) + ":";
      bytes = static_cast<std::size_t>(image.size.height * image.size.width * image.channels);
    }
    all.append(reinterpret_cast<const char*>(sample.data(field)), bytes);
  }
  return all;
}

void expect_same(const Dataset& left, const Dataset& right) {
  EXPECT_EQ(left.fields(), right.fields());
  EXPECT_EQ(left.class_names(), right.class_names());
  ASSERT_EQ(left.size(), right.size());
  for (std::int64_t i = 0; i < left.size(); ++i)
    ASSERT_EQ(content(left, i), content(right, i)) << i;
}

TEST(PackTest, HoldsWhatTheSetHeld) {
  const ScratchFolder folder;
  const Mixed mixed(1000);
  expect_same(*PackDataset::open(pack_of(mixed, folder)), mixed);
  const auto pictures = synthetic({.size = 3000, .height = 10, .width = 13});
  expect_same(*PackDataset::open(pack_of(*pictures, folder)), *pictures);
}

TEST(PackTest, CanBeEmptyOrHoldOneSample) {
  const ScratchFolder folder;
  expect_same(*PackDataset::open(pack_of(Mixed(0), folder)), Mixed(0));
  expect_same(*PackDataset::open(pack_of(Mixed(1), folder)), Mixed(1));
}

TEST(PackTest, DoesNotDependOnHowManyThreadsMadeIt) {
  const ScratchFolder folder;
  const Mixed mixed(500);
  std::string files[2];
  for (const int threads : {1, 4}) {
    const auto path = path_of(folder) / "threads.pack";
    const UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
    write_pack(file.get(), path, mixed, {.name = "test", .threads = threads});
    files[threads == 1 ? 0 : 1] = read_file(path);
  }
  EXPECT_EQ(files[0], files[1]);
}

TEST(PackTest, RefusesAFileThatIsNone) {
  const ScratchFolder folder;
  const auto path = (path_of(folder) / "other").string();
  write_file(path, std::string(5000, 'x'));
  expect_error([&] { PackDataset::open(path); }, ErrorKind::Data,
               path + ": at byte 0: expected a pack, which begins with 'LOCKPACK'");
  write_file(path, "");
  expect_error([&] { PackDataset::open(path); }, ErrorKind::Data, "found 0");
  expect_error([&] { PackDataset::open(path + ".absent"); }, ErrorKind::Data,
               "expected a pack, found no file");
}

TEST(PackTest, RefusesAnotherVersionAndAnotherByteOrder) {
  const ScratchFolder folder;
  const auto path = pack_of(Mixed(3), folder);
  const auto good = read_file(path);
  auto bytes = good;
  bytes[8] = 9;
  write_file(path, bytes);
  expect_error([&] { PackDataset::open(path); }, ErrorKind::Data, "expected version 1, found 9");
  bytes = good;
  std::swap(bytes[12], bytes[15]);
  write_file(path, bytes);
  expect_error([&] { PackDataset::open(path); }, ErrorKind::Data, "those of another machine");
}

/// Opens a pack and reads all of it; nothing where that works, else the error's message.
std::optional<std::string> complaint_about(const std::string& bytes) {
  try {
    const auto owner = std::make_shared<const std::string>(bytes);
    const auto pack =
        PackDataset::open("a.pack", std::as_bytes(std::span(owner->data(), owner->size())), owner);
    Sample sample(pack->fields());
    for (std::int64_t i = 0; i < pack->size(); ++i) pack->sample(i, sample);
    return std::nullopt;
  } catch (const Error& error) {
    EXPECT_EQ(exit_code(error.kind()), exit_code(ErrorKind::Data)) << error.what();
    EXPECT_NE(std::string(error.what()).find("a.pack: at byte "), std::string::npos)
        << error.what();
    return error.what();
  }
}

TEST(PackTest, EveryTruncationIsAnError) {
  const ScratchFolder folder;
  const auto bytes = read_file(pack_of(Mixed(40), folder));
  for (std::size_t size = 0; size < bytes.size(); size += size < 100 ? 1 : 97) {
    EXPECT_TRUE(complaint_about(bytes.substr(0, size))) << size;
  }
  EXPECT_TRUE(complaint_about(bytes + "x"));
  EXPECT_FALSE(complaint_about(bytes));
}

TEST(PackTest, EveryFlippedByteIsAnError) {
  const ScratchFolder folder;
  const auto good = read_file(pack_of(Mixed(40), folder));
  for (std::size_t i = 0; i < good.size(); ++i) {
    // Between the preamble and the first record there is nothing.
    if (i >= sizeof(PackPreamble) && i < kPackRecordsOffset) continue;
    auto bytes = good;
    bytes[i] = static_cast<char>(bytes[i] ^ 0x10);
    const auto is_padding = !complaint_about(bytes);
    // Up to 7 bytes pad the records to the table behind them.
    ASSERT_TRUE(!is_padding || good[i] == '\0') << i;
  }
}

TEST(PackTest, DamageInOneBlockLeavesTheOthersReadable) {
  const ScratchFolder folder;
  const auto set = synthetic({.size = 400});  // five blocks
  const auto path = pack_of(*set, folder);
  auto bytes = read_file(path);
  bytes[kPackRecordsOffset + 2 * kPackBlockBytes + 5] ^= 1;
  write_file(path, bytes);
  const auto pack = PackDataset::open(path);
  Sample sample(pack->fields());
  pack->sample(0, sample);
  pack->sample(399, sample);
  const auto damaged = static_cast<std::int64_t>(2 * kPackBlockBytes / 3080 + 1);
  expect_error([&] { pack->sample(damaged, sample); }, ErrorKind::Data,
               path + ": at byte " + std::to_string(kPackRecordsOffset + 2 * kPackBlockBytes) +
                   ": expected 262144 bytes with the checksum");
  expect_error([&] { pack->verify(); }, ErrorKind::Data, "make the pack again");
}

/// A set of one file, that counts how often it is read.
struct Source {
  std::filesystem::path file;
  std::shared_ptr<std::atomic<int>> reads = std::make_shared<std::atomic<int>>(0);
  Verification verification{};

  FoundSet found() const {
    return {.name = "source-train",
            .files = {file},
            .read =
                [reads = reads] {
                  ++*reads;
                  return std::make_shared<Mixed>(2000);
                },
            .verify = [verification = verification] { return verification; }};
  }
};

struct Lines {
  std::shared_ptr<std::vector<std::string>> lines = std::make_shared<std::vector<std::string>>();
  Tell tell() const {
    return [lines = lines](const std::string& line) { lines->push_back(line); };
  }
};

TEST(PackStoreTest, MakesAPackOnceAndFindsItAgain) {
  const ScratchFolder folder;
  const Source source{path_of(folder) / "original"};
  write_file(source.file, "1");
  const PackStore store(path_of(folder) / "deep" / "packs", [](const std::string&) {});
  EXPECT_EQ(store.find(source.found()), nullptr);
  expect_same(*store.find_or_make(source.found()), Mixed(2000));
  expect_same(*store.find_or_make(source.found()), Mixed(2000));
  EXPECT_EQ(*source.reads, 1);
  EXPECT_NE(store.find(source.found()), nullptr);
}

TEST(PackStoreTest, MakesItAnewWhenTheOriginalChanges) {
  const ScratchFolder folder;
  const Source source{path_of(folder) / "original"};
  write_file(source.file, "1");
  const PackStore store(path_of(folder), [](const std::string&) {});
  store.find_or_make(source.found());
  write_file(source.file, "22");
  EXPECT_EQ(store.find(source.found()), nullptr);
  store.find_or_make(source.found());
  EXPECT_EQ(*source.reads, 2);
  int packs = 0;
  for (const auto& entry : std::filesystem::directory_iterator(path_of(folder))) {
    packs += entry.path().extension() == ".pack" ? 1 : 0;
  }
  EXPECT_EQ(packs, 1);  // the old one is gone
}

TEST(PackStoreTest, ReplacesATruncatedPackAndSaysSo) {
  const ScratchFolder folder;
  const Source source{path_of(folder) / "original"};
  write_file(source.file, "1");
  const Lines heard;
  const PackStore store(path_of(folder), heard.tell());
  store.find_or_make(source.found());
  const auto path = store.path_of(source.found());
  const auto bytes = read_file(path);
  write_file(path, bytes.substr(0, bytes.size() / 2));
  expect_same(*store.find_or_make(source.found()), Mixed(2000));
  EXPECT_EQ(*source.reads, 2);
  EXPECT_EQ(*heard.lines,
            (std::vector<std::string>{path.string() +
                                      ": made anew: it is damaged, or its original has changed"}));
}

TEST(PackStoreTest, APackThatIsAskedForByNameIsCheckedInEveryByte) {
  const ScratchFolder folder;
  const Source source{path_of(folder) / "original"};
  write_file(source.file, "1");
  const PackStore store(path_of(folder), [](const std::string&) {});
  store.check_or_make(source.found(), {});
  const auto path = store.path_of(source.found());
  auto bytes = read_file(path);
  bytes[kPackRecordsOffset + 100] ^= 1;
  write_file(path, bytes);
  EXPECT_NE(store.find(source.found()), nullptr);  // too large to be read each time
  expect_same(*store.check_or_make(source.found(), {}), Mixed(2000));
  EXPECT_EQ(*source.reads, 2);
  store.check_or_make(source.found(), {});
  EXPECT_EQ(*source.reads, 2);
}

TEST(PackStoreTest, FilesThatMoveBetweenFoldersAreAnotherSet) {
  const ScratchFolder folder;
  std::filesystem::create_directories(path_of(folder) / "a");
  std::filesystem::create_directories(path_of(folder) / "b");
  write_file(path_of(folder) / "a" / "1", "x");
  Source source{path_of(folder) / "a" / "1"};
  const auto before = fingerprint_of(source.found());
  std::filesystem::rename(path_of(folder) / "a" / "1", path_of(folder) / "b" / "1");
  source.file = path_of(folder) / "b" / "1";
  EXPECT_NE(fingerprint_of(source.found()), before);
}

TEST(PackStoreTest, AFileThatIsWrittenAnewWithItsOldTimeIsAnother) {
  const ScratchFolder folder;
  const Source source{path_of(folder) / "original"};
  write_file(source.file, "1");
  const auto time = std::filesystem::last_write_time(source.file);
  const auto before = fingerprint_of(source.found());
  // The kernel's clock for files ticks every few milliseconds.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  do {
    write_file(source.file, "2");
    std::filesystem::last_write_time(source.file, time);
  } while (fingerprint_of(source.found()) == before && std::chrono::steady_clock::now() < deadline);
  EXPECT_NE(fingerprint_of(source.found()), before);
}

TEST(PackStoreTest, SetsThatAreMadeUpDifferentlyHavePacksOfTheirOwn) {
  const PackStore store("/somewhere", [](const std::string&) {});
  FoundSet found{.name = "synthetic-train", .files = {}, .recipe = "10", .read = {}, .verify = {}};
  const auto path = store.path_of(found);
  const auto fingerprint = fingerprint_of(found);
  found.recipe = "20";
  EXPECT_NE(store.path_of(found), path);
  EXPECT_NE(fingerprint_of(found), fingerprint);
}

TEST(PackStoreTest, SeveralProcessesMakeOnePack) {
  const ScratchFolder folder;
  const Source source{path_of(folder) / "original"};
  write_file(source.file, "1");
  const auto log = path_of(folder) / "reads";
  auto found = source.found();
  found.read = [log] {
    std::ofstream(log, std::ios::app) << "read\n";
    return std::make_shared<Mixed>(2000);
  };
  std::vector<pid_t> children;
  for (int i = 0; i < 6; ++i) {
    const auto child = ::fork();
    if (child == 0) {
      const PackStore store(path_of(folder) / "packs", [](const std::string&) {});
      ::_exit(store.find_or_make(found)->size() == 2000 ? 0 : 1);
    }
    children.push_back(child);
  }
  for (const auto child : children) {
    int status = -1;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(read_file(log), "read\n");
  int files = 0;
  for ([[maybe_unused]] const auto& entry :
       std::filesystem::directory_iterator(path_of(folder) / "packs")) {
    ++files;
  }
  EXPECT_EQ(files, 1);  // no lock, no partial file
}

TEST(PackStoreTest, AProcessThatDiesWhileWritingLeavesNothingInTheWay) {
  const ScratchFolder folder;
  const Source source{path_of(folder) / "original"};
  write_file(source.file, "1");
  auto dying = source.found();
  dying.read = []() -> DatasetPtr { ::_exit(9); };
  const auto child = ::fork();
  if (child == 0) {
    PackStore(path_of(folder), [](const std::string&) {}).find_or_make(dying);
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 9);
  const PackStore store(path_of(folder), [](const std::string&) {});
  expect_same(*store.find_or_make(source.found()), Mixed(2000));
}

TEST(PackStoreTest, AFailedReadLeavesNoFile) {
  const ScratchFolder folder;
  const Source source{path_of(folder) / "original"};
  write_file(source.file, "1");
  auto broken = source.found();
  broken.read = []() -> DatasetPtr { throw Error(ErrorKind::Data, "expected more"); };
  const PackStore store(path_of(folder) / "packs", [](const std::string&) {});
  expect_error([&] { store.find_or_make(broken); }, ErrorKind::Data, "expected more");
  EXPECT_TRUE(std::filesystem::is_empty(path_of(folder) / "packs"));
}

TEST(PackStoreTest, RemembersWhetherTheOriginalsWereThePublishedOnes) {
  const ScratchFolder folder;
  Source source{path_of(folder) / "original"};
  write_file(source.file, "1");
  const PackStore store(path_of(folder), [](const std::string&) {});
  const auto told = [&] {
    const Lines heard;
    tell_of_originals(*store.find_or_make(source.found()), heard.tell());
    return *heard.lines;
  };
  EXPECT_TRUE(told().empty());
  source.verification = {.all_known = true, .differing = {"data_batch_1"}};
  write_file(source.file, "22");
  for (int i = 0; i < 2; ++i) {  // also by whoever finds the pack made
    ASSERT_EQ(told().size(), 1U);
    EXPECT_NE(told()[0].find("data_batch_1: the checksum is not the published one"),
              std::string::npos);
  }
  source.verification = {.all_known = true, .differing = {}};
  write_file(source.file, "333");
  EXPECT_EQ(told(), (std::vector<std::string>{"source-train: files found, checksums are correct"}));
}

TEST(PackTest, AnySetCanBePackedUnderAName) {
  const ScratchFolder folder;
  const auto path = path_of(folder) / "mine.pack";
  write_pack(path, Mixed(30), {.name = "mine"});
  expect_same(*PackDataset::open(path), Mixed(30));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path_of(folder)), {}), 1);
  expect_error([] { write_pack("/dev/null", Mixed(3), {}); }, ErrorKind::Options,
               "/dev/null: expected a file that may be replaced, found another kind");
  expect_error([&] { write_pack(path_of(folder) / "no" / "mine.pack", Mixed(3), {}); },
               ErrorKind::Io, "No such file");
}

/// Fails at two samples.
class BrokenSet final : public Mixed {
 public:
  using Mixed::Mixed;
  void sample(std::int64_t index, Sample& sample) const override {
    if (index == 70 || index == 71) throw Error(ErrorKind::Data, "expected sense");
    Mixed::sample(index, sample);
  }
  std::string source_of(std::int64_t index) const override {
    return "file-" + std::to_string(index);
  }
};

TEST(PackTest, ASampleThatCannotBeReadIsNamedTheFirstOfSeveral) {
  const ScratchFolder folder;
  expect_error([&] { write_pack(path_of(folder) / "a.pack", BrokenSet(100), {.threads = 4}); },
               ErrorKind::Data, "pack: sample 70 (file-70): expected sense");
  EXPECT_TRUE(std::filesystem::is_empty(path_of(folder)));
}

TEST(PackTest, NamesThatAreNotUtf8DoNotKeepASetFromBeingPacked) {
  class Named final : public Dataset {
   public:
    Named() : Dataset({{"x", DataType::I64, {}}}, {"caf\xe9"}) {}
    std::int64_t size() const override { return 1; }
    void sample(std::int64_t index, Sample& sample) const override {
      sample.set<std::int64_t>(0, index);
    }
  };
  const ScratchFolder folder;
  write_pack(path_of(folder) / "a.pack", Named(), {});
  EXPECT_EQ(PackDataset::open(path_of(folder) / "a.pack")->class_names().size(), 1U);
}

TEST(PackTest, RefusesSamplesThatItHasNot) {
  const ScratchFolder folder;
  const auto pack = PackDataset::open(pack_of(Mixed(3), folder));
  Sample sample(pack->fields());
  for (const std::int64_t index : {-1, 3, 1 << 30}) {
    expect_error([&] { pack->sample(index, sample); }, ErrorKind::Options,
                 "expected one of 3 samples, found " + std::to_string(index));
  }
}

TEST(PackTest, StoredFilesAreForFoldersOfPictures) {
  const ScratchFolder folder;
  const auto path = path_of(folder) / "stored.pack";
  const UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644));
  expect_error(
      [&] { write_pack(file.get(), path, Mixed(3), {.name = "test", .stores_files = true}); },
      ErrorKind::Options, "this set has no file for each picture");
}

TEST(PackTest, AFullDiskIsAnError) {
  const UniqueFd full(::open("/dev/full", O_RDWR | O_CLOEXEC));
  expect_error([&] { write_pack(full.get(), "/dev/full", Mixed(30), {.name = "test"}); },
               ErrorKind::Io, "/dev/full: No space left on device");
}

}  // namespace
}  // namespace lockstep::data

#include "lockstep/data/sets/catalog.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "lockstep/base/file.h"
#include "lockstep/data/pack/pack_dataset.h"
#include "lockstep/data/sets/find_set.h"
#include "lockstep/data/sets/set_names.h"
#include "tests/data/made_files.h"
#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;
using testing::expect_error;
using testing::ScratchFolder;

/// A little MNIST, and a cache of its own.
class CatalogTest : public ::testing::Test {
 protected:
  CatalogTest() {
    fs::create_directory(data_dir());
    write_set("abc");
  }

  fs::path data_dir() const { return fs::path(folder_.path()) / "data"; }
  fs::path cache_dir() const { return fs::path(folder_.path()) / "cache"; }

  void write_set(const std::string& labels) const {
    const auto count = static_cast<std::uint32_t>(labels.size());
    std::string numbers;
    for (const char label : labels) numbers.push_back(static_cast<char>(label - 'a'));
    write_file(data_dir() / "train-images-idx3-ubyte",
               testing::idx({count, 28, 28}, testing::pattern(count * 784, 1)));
    write_file(data_dir() / "train-labels-idx1-ubyte", testing::idx({count}, numbers));
  }

  SetOptions options() {
    return {.data_dir = data_dir(), .cache_dir = cache_dir(), .tell = [this](const auto& line) {
              heard_.push_back(line);
            }};
  }
  DatasetPtr open() { return open_set("mnist", Split::Train, options()); }

  ScratchFolder folder_;
  std::vector<std::string> heard_;
};

TEST_F(CatalogTest, OpensASmallSetThroughAPackInTheCache) {
  const auto first = open();
  EXPECT_EQ(first->size(), 3);
  EXPECT_NE(dynamic_cast<const PackDataset*>(first.get()), nullptr);
  EXPECT_EQ(std::distance(fs::directory_iterator(cache_dir() / "packs"), {}), 1);
  EXPECT_EQ(open()->size(), 3);
  EXPECT_TRUE(heard_.empty());  // nobody has published checksums of plain MNIST files
}

TEST_F(CatalogTest, WarnsWhereAKnownFileHasAnotherChecksum) {
  for (const auto* const name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"}) {
    const auto plain = data_dir() / name;
    write_file(plain.string() + ".gz", testing::gzip(read_file(plain)));
    fs::remove(plain);
  }
  EXPECT_EQ(open()->size(), 3);
  ASSERT_EQ(heard_.size(), 1U);
  EXPECT_NE(heard_[0].find("train-images-idx3-ubyte.gz"), std::string::npos);
  EXPECT_NE(heard_[0].find("the checksum is not the published one"), std::string::npos);
  open();  // from the pack: it is still so
  EXPECT_EQ(heard_.size(), 2U);
}

TEST_F(CatalogTest, SeesThatTheFilesHaveChanged) {
  open();
  write_set("abcd");
  EXPECT_EQ(open()->size(), 4);
}

TEST_F(CatalogTest, UsesAPackThatLiesInTheDataFolder) {
  const auto found = find_set("mnist", Split::Train, options());
  pack_store(options()).make(found, data_dir() / "mnist-train.pack", {});
  fs::remove(data_dir() / "train-images-idx3-ubyte");
  EXPECT_EQ(open()->size(), 3);
  EXPECT_EQ(open_set(data_dir() / "mnist-train.pack", Split::Train, options())->size(), 3);
}

TEST_F(CatalogTest, RefusesAPackInTheDataFolderThatIsOfAnotherSet) {
  const auto found = find_set("synthetic", Split::Train, {.synthetic = {.size = 3}});
  pack_store(options()).make(found, data_dir() / "mnist-train.pack", {});
  expect_error([&] { open(); }, ErrorKind::Data,
               "mnist-train.pack: expected a pack of mnist-train, found one of synthetic-train");
}

TEST_F(CatalogTest, ReadsIntoMemoryWhereNoPackCanBeKept) {
  write_file(cache_dir(), "a file where a folder should be");
  const auto set = open();
  EXPECT_EQ(set->size(), 3);
  EXPECT_EQ(dynamic_cast<const PackDataset*>(set.get()), nullptr);
  ASSERT_FALSE(heard_.empty());
  EXPECT_NE(heard_.back().find("is kept in this process's own memory"), std::string::npos)
      << heard_.back();
}

TEST_F(CatalogTest, DamageInTheOriginalIsNotHiddenByTheCache) {
  write_file(data_dir() / "train-labels-idx1-ubyte", "no idx");
  expect_error([&] { open(); }, ErrorKind::Data, "train-labels-idx1-ubyte: at byte 0: expected");
}

TEST_F(CatalogTest, FilesThatCannotBeReadAreNotBlamedOnTheCache) {
  fs::remove(data_dir() / "train-labels-idx1-ubyte");
  fs::create_symlink(data_dir() / "train-labels-idx1-ubyte",
                     data_dir() / "train-labels-idx1-ubyte");
  EXPECT_THROW(open(), Error);
  EXPECT_TRUE(heard_.empty());
}

TEST_F(CatalogTest, NamesWhatThereIs) {
  EXPECT_EQ(set_names(), (std::vector<std::string>{"cifar10", "cifar100", "mnist", "fashion-mnist",
                                                   "folder", "synthetic"}));
  expect_error([&] { open_set("cifar01", Split::Train, options()); }, ErrorKind::Options,
               "expected a set (cifar10, cifar100, mnist, fashion-mnist, folder, synthetic)");
  expect_error([&] { open_set("cifar01", Split::Train, options()); }, ErrorKind::Options,
               "did you mean 'cifar10'?");
}

TEST_F(CatalogTest, MissingSetsSayWhereToGetThem) {
  fs::remove(data_dir() / "train-labels-idx1-ubyte");
  for (const auto* const name : {"cifar10", "cifar100", "mnist", "folder"}) {
    expect_error([&] { open_set(name, Split::Train, options()); }, ErrorKind::Data, name);
  }
  expect_error([&] { open_set("cifar10", Split::Train, options()); }, ErrorKind::Data,
               "cs.toronto.edu/~kriz/cifar.html");
}

TEST_F(CatalogTest, MakesUpASet) {
  auto wanted = options();
  wanted.synthetic = {.size = 12, .classes = 3};
  EXPECT_EQ(open_set("synthetic", Split::Test, wanted)->size(), 12);
}

TEST_F(CatalogTest, FindsFashionMnistByItself) {
  if (!fs::exists("/usr/share/datasets/fashion-mnist")) {
    GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  }
  auto wanted = options();
  wanted.data_dir.clear();
  EXPECT_EQ(open_set("fashion-mnist", Split::Test, wanted)->size(), 10'000);
  EXPECT_EQ(heard_,
            (std::vector<std::string>{"fashion-mnist-test: files found, checksums are correct"}));
  heard_.clear();
  open_set("fashion-mnist", Split::Test, wanted);  // now from the pack
  EXPECT_EQ(heard_,
            (std::vector<std::string>{"fashion-mnist-test: files found, checksums are correct"}));
}

}  // namespace
}  // namespace lockstep::data

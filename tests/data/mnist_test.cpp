#include "lockstep/data/sets/mnist.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "tests/data/made_files.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;
using lockstep::testing::expect_data_error;
using lockstep::testing::gzip;
using lockstep::testing::idx;
using lockstep::testing::pattern;
using lockstep::testing::ScratchFolder;
using lockstep::testing::thrown_by;

constexpr const char* kDebian = "/usr/share/datasets/fashion-mnist";

std::int64_t label_of(const Dataset& set, std::int64_t index) {
  Sample sample(set.fields());
  set.sample(index, sample);
  std::int64_t label = -1;
  std::memcpy(&label, sample.data(1), sizeof label);
  return label;
}

std::string image_of(const Dataset& set, std::int64_t index) {
  Sample sample(set.fields());
  set.sample(index, sample);
  return std::string(reinterpret_cast<const char*>(sample.data(0)), bytes_of(set.fields()[0]));
}

/// Three pictures and their labels.
class MnistTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) const {
    fs::create_directories((fs::path(folder_.path()) / name).parent_path());
    folder_.write(name, content);
  }
  std::string path(const std::string& name) const { return folder_.path() + "/" + name; }
  FoundSet find() const { return find_mnist(folder_.path(), Split::Train); }
  void expect_refused(const std::vector<std::string>& parts) const {
    expect_data_error([&] { find().read(); }, parts);
  }

  ScratchFolder folder_;
  std::string pixels_ = pattern(3 * 784, 1);
  std::string images_ = idx({3, 28, 28}, pixels_);
  std::string labels_ = idx({3}, "\x05\x09\x01");
};

TEST_F(MnistTest, ReadsPicturesAndLabelsUnderEachName) {
  for (const std::string folder : {"", "raw/", "MNIST/raw/"}) {
    for (const std::string separator : {"-", "."}) {
      for (const bool is_packed : {false, true}) {
        const auto images = folder + "train-images" + separator + "idx3-ubyte";
        const auto labels = folder + "train-labels" + separator + "idx1-ubyte";
        const std::string ending = is_packed ? ".gz" : "";
        write(images + ending, is_packed ? gzip(images_) : images_);
        write(labels + ending, is_packed ? gzip(labels_) : labels_);
        const auto found = find();
        EXPECT_EQ(found.name, "mnist-train");
        EXPECT_EQ(found.files[0], path(images + ending));
        EXPECT_TRUE(found.packs_by_itself);
        const auto set = found.read();
        ASSERT_EQ(set->size(), 3);
        EXPECT_EQ(describe(set->fields()[0]), "image u8 [28, 28, 1]");
        EXPECT_EQ(label_of(*set, 0), 5);
        EXPECT_EQ(label_of(*set, 2), 1);
        EXPECT_TRUE(image_of(*set, 1) == pixels_.substr(784, 784));
        EXPECT_EQ(set->class_names()[9], "9");
        EXPECT_EQ(set->source_of(0), path(images + ending));
        fs::remove(path(images + ending));
        fs::remove(path(labels + ending));
      }
    }
  }
}

TEST_F(MnistTest, GoesByTheContentWhereTheNameSaysOtherwise) {
  write("train-images-idx3-ubyte.gz", images_);
  write("train-labels-idx1-ubyte", gzip(labels_));
  const auto set = find().read();
  ASSERT_EQ(set->size(), 3);
  EXPECT_TRUE(image_of(*set, 2) == pixels_.substr(2 * 784, 784));
  EXPECT_EQ(label_of(*set, 1), 9);
}

TEST_F(MnistTest, RefusesSwappedFiles) {
  write("train-images-idx3-ubyte", labels_);
  write("train-labels-idx1-ubyte", images_);
  expect_refused(
      {path("train-images-idx3-ubyte") + ": at byte 3: expected pictures", "found the shape [3]"});
  write("train-images-idx3-ubyte", images_);
  expect_refused({path("train-labels-idx1-ubyte") + ": at byte 3: expected labels",
                  "found the shape [3, 28, 28]"});
}

TEST_F(MnistTest, RefusesPicturesOfAnotherSize) {
  write("train-images-idx3-ubyte", idx({3, 28, 27}, pattern(3 * 28 * 27, 1)));
  write("train-labels-idx1-ubyte", labels_);
  expect_refused({"expected pictures, of shape [count, 28, 28], found the shape [3, 28, 27]"});
}

TEST_F(MnistTest, RefusesCountsThatDiffer) {
  write("train-images-idx3-ubyte", images_);
  write("train-labels-idx1-ubyte", idx({2}, "\x05\x09"));
  expect_refused({path("train-labels-idx1-ubyte") + ": at byte 4: expected 3 labels", "found 2"});
}

TEST_F(MnistTest, RefusesALabelOutOfRange) {
  write("train-images-idx3-ubyte", images_);
  write("train-labels-idx1-ubyte.gz", gzip(idx({3}, "\x05\x0a\x01")));
  expect_refused({path("train-labels-idx1-ubyte.gz") + ", unpacked: at byte 9: expected a label "
                                                       "of 0 to 9, found 10"});
}

TEST_F(MnistTest, RefusesDamagedFiles) {
  write("train-labels-idx1-ubyte", labels_);
  write("train-images-idx3-ubyte", images_.substr(0, images_.size() - 1));
  expect_refused(
      {path("train-images-idx3-ubyte") + ": at byte 16: expected 2352 bytes", "found 2351"});
  fs::remove(path("train-images-idx3-ubyte"));
  const auto packed = gzip(images_);
  write("train-images-idx3-ubyte.gz", packed.substr(0, packed.size() / 2));
  expect_refused({path("train-images-idx3-ubyte.gz") + ": at byte ", "found its end"});
}

TEST_F(MnistTest, SaysWhatIsMissingAndWhereToGetIt) {
  const auto error = thrown_by([&] { find(); });
  EXPECT_EQ(error.kind(), ErrorKind::Data);
  EXPECT_THAT(error.what(), ::testing::HasSubstr("train-images-idx3-ubyte"));
  EXPECT_THAT(error.what(), ::testing::HasSubstr(folder_.path() + "/MNIST/raw"));
  EXPECT_THAT(error.hint(), ::testing::HasSubstr("https://"));
  EXPECT_THAT(error.hint(), ::testing::HasSubstr("--dataset synthetic"));
  write("train-images-idx3-ubyte", images_);
  expect_data_error([&] { find(); }, {"but only " + path("train-images-idx3-ubyte")});
  expect_data_error([] { find_mnist("", Split::Train); }, {"--data-dir, and none is given"});
  const auto fashion = thrown_by([&] { find_fashion_mnist(folder_.path(), Split::Test); });
  EXPECT_THAT(fashion.what(), ::testing::HasSubstr("t10k-images-idx3-ubyte"));
  EXPECT_THAT(fashion.hint(), ::testing::HasSubstr("dataset-fashion-mnist"));
}

TEST_F(MnistTest, KnowsAFileWithAnotherChecksum) {
  write("train-images-idx3-ubyte.gz", gzip(images_));
  write("train-labels-idx1-ubyte", labels_);
  const auto verification = find().verify();
  EXPECT_FALSE(verification.all_known);
  EXPECT_THAT(verification.differing, ::testing::ElementsAre(path("train-images-idx3-ubyte.gz")));
}

TEST(FashionMnistTest, IsFoundWhereDebianPutsIt) {
  if (!fs::exists(kDebian)) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  const auto found = find_fashion_mnist("", Split::Train);
  EXPECT_EQ(found.name, "fashion-mnist-train");
  const auto set = found.read();
  ASSERT_EQ(set->size(), 60000);
  std::vector<std::int64_t> labels;
  for (int i = 0; i < 10; ++i) labels.push_back(label_of(*set, i));
  EXPECT_THAT(labels, ::testing::ElementsAre(9, 0, 0, 3, 0, 2, 7, 2, 5, 5));
  EXPECT_EQ(set->class_names()[9], "Ankle boot");
  const auto verification = found.verify();
  EXPECT_TRUE(verification.all_known);
  EXPECT_TRUE(verification.differing.empty());
}

TEST(FashionMnistTest, HasATestSplit) {
  if (!fs::exists(kDebian)) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  const auto found = find_fashion_mnist("", Split::Test);
  EXPECT_EQ(found.read()->size(), 10000);
  EXPECT_TRUE(found.verify().all_known);
}

}  // namespace
}  // namespace lockstep::data

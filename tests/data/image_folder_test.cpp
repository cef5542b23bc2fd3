#include "lockstep/data/sets/image_folder.h"

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
using lockstep::testing::fixture;
using lockstep::testing::ScratchFolder;
using lockstep::testing::thrown_by;

class ImageFolderTest : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) const {
    fs::create_directories((fs::path(folder_.path()) / name).parent_path());
    folder_.write(name, content);
  }
  std::string path(const std::string& name = "") const { return folder_.path() + "/" + name; }
  FoundSet find(Split split = Split::Train) const {
    return find_image_folder(folder_.path(), split);
  }
  void expect_missing(Split split, const std::vector<std::string>& parts) const {
    expect_data_error([&] { find(split); }, parts);
  }

  ScratchFolder folder_;
  std::string jpeg_ = fixture("images/420.jpg");
  std::string png_ = fixture("images/gray.png");
};

TEST_F(ImageFolderTest, DecodesPicturesOfSortedClasses) {
  write("train/zebra/2.JPG", jpeg_);
  write("train/zebra/10.png", png_);
  write("train/ant/deep/er/x.jpeg", jpeg_);
  write("train/ant/.hidden.jpg", "no picture");
  write("train/ant/.hidden/y.jpg", "no picture");
  write("train/ant/notes.txt", "no picture");
  write("train/.cache/z.jpg", "no picture");
  write("val/zebra/a.png", png_);
  const auto found = find();
  EXPECT_EQ(found.name, "image-folder-train");
  EXPECT_FALSE(found.packs_by_itself);
  const std::vector<fs::path> files{path("train/ant/deep/er/x.jpeg"), path("train/zebra/10.png"),
                                    path("train/zebra/2.JPG")};
  EXPECT_EQ(found.files, files);
  EXPECT_FALSE(found.verify().all_known);
  const auto set = found.read();
  ASSERT_EQ(set->size(), 3);
  EXPECT_THAT(set->class_names(), ::testing::ElementsAre("ant", "zebra"));
  Sample sample(set->fields());
  for (std::int64_t i = 0; i < 3; ++i) {
    set->sample(i, sample);
    EXPECT_EQ(sample.image(0).size, (ImageSize{19, 27}));
    EXPECT_EQ(*reinterpret_cast<const std::int64_t*>(sample.data(1)), i > 0 ? 1 : 0);
    const auto expected = fixture(i == 1 ? "images/gray.png.rgb" : "images/420.jpg.rgb");
    EXPECT_EQ(std::memcmp(sample.data(0), expected.data(), expected.size()), 0);
    EXPECT_EQ(set->source_of(i), files[static_cast<std::size_t>(i)]);
  }
  EXPECT_EQ(dynamic_cast<const ImageFolder&>(*set).stored_bytes(1), png_);
}

TEST_F(ImageFolderTest, NumbersTheTestSplitByTheClassesOfTheTrainSplit) {
  for (const auto* const name : {"a", "b", "c"})
    write(std::string("train/") + name + "/1.jpg", jpeg_);
  for (const std::string folder : {"test", "val", "valid", "validation"}) {
    write(folder + "/c/1.png", png_);
    const auto set = find(Split::Test).read();
    ASSERT_EQ(set->size(), 1);
    EXPECT_EQ(set->source_of(0), path(folder + "/c/1.png"));
    EXPECT_EQ(set->class_names().size(), 3u);
    EXPECT_EQ(dynamic_cast<const ImageFolder&>(*set).label(0), 2);
    fs::remove_all(path(folder));
  }
  write("test/d/1.png", png_);
  expect_missing(Split::Test, {"expected classes that are in " + path("train"), path("test/d")});
}

TEST_F(ImageFolderTest, TakesAFolderWithoutTrainAsTheTrainSplit) {
  write("cat/1.jpg", jpeg_);
  EXPECT_EQ(find().read()->size(), 1);
  expect_missing(Split::Test, {folder_.path() + " has no folder 'train'", "found none"});
}

TEST_F(ImageFolderTest, SaysWhatIsMissing) {
  expect_missing(Split::Train,
                 {"expected a folder for each class in " + folder_.path(), "found none"});
  write("train/1.jpg", jpeg_);
  expect_missing(Split::Train, {path("train") + ", found 1 pictures without one"});
  fs::create_directories(path("train/empty"));
  expect_missing(Split::Train, {"expected pictures (jpg, jpeg, png) in " + path("train/empty")});
  expect_missing(Split::Test, {"expected one of the folders test, val, valid, validation"});
  fs::create_directories(path("test/empty"));
  expect_missing(Split::Test, {"expected pictures (jpg, jpeg, png) in " + path("test")});
  const auto error = thrown_by([&] { find_image_folder(path("none"), Split::Train); });
  EXPECT_EQ(error.kind(), ErrorKind::Data);
  EXPECT_THAT(error.what(), ::testing::HasSubstr("expected a folder " + path("none")));
  EXPECT_THAT(error.hint(), ::testing::HasSubstr("--dataset synthetic"));
}

TEST_F(ImageFolderTest, NamesTheFileThatIsDamagedOrGone) {
  write("cat/1.jpg", jpeg_.substr(0, 400));
  write("cat/2.jpg", jpeg_);
  const auto set = find().read();
  Sample sample(set->fields());
  expect_data_error([&] { set->sample(0, sample); }, {path("cat/1.jpg") + ": at byte "});
  fs::remove(path("cat/2.jpg"));
  const auto error = thrown_by([&] { set->sample(1, sample); });
  EXPECT_EQ(error.kind(), ErrorKind::Io);
  EXPECT_THAT(error.what(), ::testing::HasSubstr(path("cat/2.jpg")));
}

}  // namespace
}  // namespace lockstep::data

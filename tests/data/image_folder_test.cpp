#include "lockstep/data/sets/image_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

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
  EXPECT_EQ(found.name, "folder-train");
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

TEST_F(ImageFolderTest, FollowsLinksToPicturesAndFolders) {
  write("elsewhere/deep/1.jpg", jpeg_);
  write("train/ant/1.jpg", jpeg_);
  fs::create_directory_symlink(path("elsewhere"), path("train/bee"));
  fs::create_directory_symlink(path("elsewhere"), path("train/ant/more"));
  fs::create_symlink(path("elsewhere/deep/1.jpg"), path("train/ant/2.jpg"));
  const std::vector<fs::path> files{path("train/ant/1.jpg"), path("train/ant/2.jpg"),
                                    path("train/ant/more/deep/1.jpg"),
                                    path("train/bee/deep/1.jpg")};
  EXPECT_EQ(find().files, files);
}

TEST_F(ImageFolderTest, RefusesALinkToAFolderThatItIsIn) {
  write("train/ant/deep/1.jpg", jpeg_);
  fs::create_directory_symlink("..", path("train/ant/deep/up"));
  expect_missing(Split::Train, {"found " + path("train/ant/deep/up") + ", a link to a folder"});
  fs::remove(path("train/ant/deep/up"));
  // Two of them: 2^40 ways through before the system gives up.
  fs::create_directory_symlink(".", path("train/ant/a"));
  fs::create_directory_symlink(".", path("train/ant/b"));
  expect_missing(Split::Train, {"expected folders that end, found " + path("train/ant/")});
}

TEST_F(ImageFolderTest, RefusesLinksToNothing) {
  write("train/bee/1.jpg", jpeg_);
  write("train/cat/1.jpg", jpeg_);
  fs::create_symlink(path("gone"), path("train/ant"));
  expect_missing(Split::Train, {"expected the target of " + path("train/ant") + ", found none"});
  fs::remove(path("train/ant"));
  fs::create_symlink(path("gone.jpg"), path("train/cat/2.jpg"));
  expect_missing(Split::Train, {"expected the target of " + path("train/cat/2.jpg")});
  fs::remove(path("train/cat/2.jpg"));
  fs::create_symlink(path("gone.txt"), path("train/cat/notes.txt"));
  EXPECT_EQ(find().files.size(), 2u) << "what is no picture may be gone";
}

TEST_F(ImageFolderTest, NamesTheFolderThatCannotBeRead) {
  write("train/ant/1.jpg", jpeg_);
  fs::create_symlink("itself", path("train/ant/itself"));
  auto error = thrown_by([&] { find(); });
  EXPECT_EQ(error.kind(), ErrorKind::Io);
  EXPECT_THAT(error.what(), ::testing::HasSubstr("read " + path("train/ant/itself") + ": "));
  fs::remove(path("train/ant/itself"));
  write("train/ant/deep/closed/1.jpg", jpeg_);
  fs::permissions(path("train/ant/deep/closed"), fs::perms::none);
  if (::geteuid() == 0) GTEST_SKIP() << "root may read any folder";
  error = thrown_by([&] { find(); });
  fs::permissions(path("train/ant/deep/closed"), fs::perms::owner_all);
  EXPECT_EQ(error.kind(), ErrorKind::Io);
  EXPECT_THAT(error.what(), ::testing::HasSubstr("read " + path("train/ant/deep/closed") + ": "));
}

TEST_F(ImageFolderTest, RefusesAFileThatClaimsToBeHuge) {
  write("cat/1.jpg", jpeg_);
  fs::resize_file(path("cat/1.jpg"), std::uintmax_t{1} << 40);  // a hole, which takes no room
  const auto set = find().read();
  Sample sample(set->fields());
  expect_data_error([&] { set->sample(0, sample); },
                    {path("cat/1.jpg") + ": at byte 1073741824: expected a file of at most",
                     "found 1099511627776"});
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

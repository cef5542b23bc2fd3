#include "lockstep/base/partial_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>

#include "tests/support/errors.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {
namespace {

using testing::expect_error;

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(PartialFileTest, ReplacesTheTargetOnlyWhenPublished) {
  const testing::ScratchFolder folder;
  const auto target = folder.write("weights", "old");
  PartialFile file(target);
  file.append(as_bytes("new "));
  file.append(as_bytes("content"));
  EXPECT_EQ(read_file(target), "old");
  file.publish();
  EXPECT_EQ(read_file(target), "new content");
  EXPECT_FALSE(std::filesystem::exists(file.path()));
}

TEST(PartialFileTest, LeavesNothingBehindWhenNotPublished) {
  const testing::ScratchFolder folder;
  { PartialFile(folder.path() + "/weights").append(as_bytes("half")); }
  EXPECT_TRUE(folder.is_empty());
}

mode_t permissions_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 07777;
}

TEST(PartialFileTest, HasThePermissionsThatTheUmaskLeaves) {
  const testing::ScratchFolder folder;
  for (const mode_t mask : {0077, 0002, 0022}) {
    const auto target = folder.path() + "/weights" + std::to_string(mask);
    const auto before = ::umask(mask);
    PartialFile file(target);
    ::umask(before);
    EXPECT_EQ(permissions_of(file.path()), 0666 & ~mask);
    file.publish();
    EXPECT_EQ(permissions_of(target), 0666 & ~mask);
  }
}

TEST(PartialFileTest, KeepsThePermissionsOfWhatItReplaces) {
  const testing::ScratchFolder folder;
  const auto target = folder.write("weights", "old");
  for (const mode_t mode : {0600, 0664}) {
    ASSERT_EQ(::chmod(target.c_str(), mode), 0);
    PartialFile(target).publish();
    EXPECT_EQ(permissions_of(target), mode);
  }
}

TEST(PartialFileTest, ReplacesWhatALinkPointsTo) {
  const testing::ScratchFolder folder;
  std::filesystem::create_directory(folder.path() + "/far");
  const auto publish = [](const std::string& target) {
    PartialFile file(target);
    file.append(as_bytes("new"));
    file.publish();
  };
  // One link after the other, relative to where each is; the file need not be there yet.
  std::filesystem::create_symlink("far/link", folder.path() + "/link");
  std::filesystem::create_symlink("weights", folder.path() + "/far/link");
  for (int i = 0; i < 2; ++i) {
    publish(folder.path() + "/link");
    EXPECT_TRUE(std::filesystem::is_symlink(folder.path() + "/link"));
    EXPECT_TRUE(std::filesystem::is_symlink(folder.path() + "/far/link"));
    EXPECT_EQ(read_file(folder.path() + "/far/weights"), "new");
    write_file(folder.path() + "/far/weights", "old");
  }
  std::filesystem::create_symlink(folder.path() + "/far/weights", folder.path() + "/absolute");
  publish(folder.path() + "/absolute");
  EXPECT_EQ(read_file(folder.path() + "/far/weights"), "new");
  std::filesystem::create_symlink("itself", folder.path() + "/itself");
  expect_error([&] { PartialFile(folder.path() + "/itself"); }, ErrorKind::Io, "/itself");
}

TEST(PartialFileTest, WorksInTheCurrentFolder) {
  const testing::ScratchFolder folder;
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(folder.path());
  PartialFile("weights").publish();
  std::filesystem::current_path(before);
  EXPECT_EQ(read_file(folder.path() + "/weights"), "");
}

TEST(PartialFileTest, NamesWhatCannotBeWritten) {
  const testing::ScratchFolder folder;
  expect_error([&] { PartialFile(folder.path() + "/no/such/file"); }, ErrorKind::Io,
               "/no/such/file.partial.");
  expect_error([&] { PartialFile file(folder.path()); }, ErrorKind::Options,
               folder.path() + ": expected a file that may be replaced");
}

}  // namespace
}  // namespace lockstep

#include "lockstep/base/partial_file.h"

#include <gtest/gtest.h>

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

TEST(PartialFileTest, NamesWhatCannotBeWritten) {
  const testing::ScratchFolder folder;
  expect_error([&] { PartialFile(folder.path() + "/no/such/file"); }, ErrorKind::Io,
               "/no/such/file.partial.");
  expect_error([&] { PartialFile file(folder.path()); }, ErrorKind::Options,
               folder.path() + ": expected a file that may be replaced");
}

}  // namespace
}  // namespace lockstep

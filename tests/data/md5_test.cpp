#include "lockstep/data/formats/md5.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/data/made_files.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::data {
namespace {

TEST(Md5Test, GivesTheChecksumsOfTheStandard) {
  const lockstep::testing::ScratchFolder folder;
  EXPECT_EQ(md5_of(folder.write("empty", "")), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(md5_of(folder.write("abc", "abc")), "900150983cd24fb0d6963f7d28e17f72");
}

TEST(Md5Test, NamesAFileThatCannotBeRead) {
  const auto error = lockstep::testing::thrown_by([] { md5_of("/no/such/file"); });
  EXPECT_EQ(error.kind(), ErrorKind::Io);
  EXPECT_THAT(std::string(error.what()), ::testing::HasSubstr("/no/such/file"));
}

}  // namespace
}  // namespace lockstep::data

#include "lockstep/base/file.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "tests/support/scratch_folder.h"

namespace lockstep {
namespace {

bool is_open(int fd) {
  return ::fcntl(fd, F_GETFD) >= 0;
}

TEST(UniqueFdTest, ClosesWhatItOwnsOnceAndHandsItOnByMove) {
  auto pipe = make_pipe();
  const int fd = pipe.read_end.get();
  {
    UniqueFd moved = std::move(pipe.read_end);
    EXPECT_FALSE(pipe.read_end);
    EXPECT_TRUE(is_open(fd));
  }
  EXPECT_FALSE(is_open(fd));
}

TEST(FileTest, PutsDevNullInPlaceOfAClosedStandardStream) {
  const UniqueFd saved(::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3));
  ::close(STDIN_FILENO);
  open_missing_standard_streams();
  EXPECT_TRUE(is_open(STDIN_FILENO));
  char byte = 0;
  EXPECT_EQ(::read(STDIN_FILENO, &byte, 1), 0);
  if (saved) ::dup2(saved.get(), STDIN_FILENO);
}

TEST(FileTest, ReadsBackWhatItWroteAndReplacesIt) {
  const testing::ScratchFolder folder;
  const auto path = folder.path() + "/file";
  const std::string content(100'000, 'x');
  write_file(path, content);
  EXPECT_EQ(read_file(path), content);
  write_file(path, "short");
  EXPECT_EQ(read_file(path), "short");
}

TEST(FileTest, NamesTheFileThatCannotBeReadOrWritten) {
  try {
    read_file("/nowhere/at/all");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Io);
    EXPECT_STREQ(error.what(), "read /nowhere/at/all: No such file or directory");
  }
  EXPECT_THROW(write_file("/nowhere/at/all", "x"), Error);
}

}  // namespace
}  // namespace lockstep

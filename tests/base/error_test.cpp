#include "lockstep/base/error.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <utility>

#include "lockstep/base/signal_name.h"

namespace lockstep {
namespace {

TEST(ErrorTest, GivesEveryKindTheExitCodeOfTheContract) {
  const std::pair<ErrorKind, int> expected[] = {
      {ErrorKind::Options, 2},   {ErrorKind::Data, 3},    {ErrorKind::Unavailable, 4},
      {ErrorKind::Io, 5},        {ErrorKind::Timeout, 6}, {ErrorKind::PeerLost, 7},
      {ErrorKind::Diverged, 8},  {ErrorKind::Bug, 70},    {ErrorKind::NotExecutable, 126},
      {ErrorKind::NotFound, 127}};
  for (const auto& [kind, code] : expected) EXPECT_EQ(exit_code(kind), code);
}

TEST(ErrorTest, PrintsTheHintOnALineOfItsOwn) {
  EXPECT_EQ(describe(Error(ErrorKind::Options, "place: no room", "add a host")),
            "lockstep: place: no room\n  try: add a host\n");
}

TEST(ErrorTest, PrintsOneLineWithoutAHint) {
  EXPECT_EQ(describe(Error(ErrorKind::Bug, "oops")), "lockstep: oops\n");
}

TEST(ErrorTest, TakesTheReasonOfAnIoErrorFromErrno) {
  errno = ENOSPC;
  const auto error = io_error("write page.bin");
  EXPECT_EQ(error.kind(), ErrorKind::Io);
  EXPECT_STREQ(error.what(), "write page.bin: No space left on device");
}

TEST(SignalNameTest, KnowsNamesAndFallsBackToTheNumber) {
  EXPECT_EQ(signal_name(9), "SIGKILL");
  EXPECT_EQ(signal_name(11), "SIGSEGV");
  EXPECT_EQ(signal_name(77), "signal 77");
}

}  // namespace
}  // namespace lockstep

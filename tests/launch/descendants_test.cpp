#include "lockstep/launch/supervise/descendants.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "tests/support/subprocess.h"

namespace lockstep::launch {
namespace {

using testing::Subprocess;
using namespace std::chrono_literals;

bool contains(const std::vector<ProcessEntry>& processes, pid_t pid) {
  return std::any_of(processes.begin(), processes.end(),
                     [&](const ProcessEntry& process) { return process.pid == pid; });
}

TEST(DescendantsTest, FindsChildrenAndTheirChildren) {
  Subprocess shell({"sh", "-c", "sleep 60 & echo $!; wait"});
  ASSERT_TRUE(shell.wait_for("\n"));
  const pid_t grandchild = std::stoi(shell.out());
  const auto found = descendants_of(::getpid());
  EXPECT_TRUE(contains(found, shell.pid()));
  EXPECT_TRUE(contains(found, grandchild));
  EXPECT_FALSE(contains(found, ::getpid()));
}

TEST(DescendantsTest, ReadsNamesWithBracketsAndSpaces) {
  Subprocess renamed({"sh", "-c", "printf 'a) (b' > /proc/$$/comm; echo; sleep 60; true"});
  ASSERT_TRUE(renamed.wait_for("\n"));
  const auto found = descendants_of(::getpid());
  const auto entry = std::find_if(found.begin(), found.end(), [&](const ProcessEntry& process) {
    return process.pid == renamed.pid();
  });
  ASSERT_NE(entry, found.end());
  EXPECT_EQ(entry->name, "a) (b");
  EXPECT_EQ(entry->parent, ::getpid());
}

TEST(DescendantsTest, SignalsThoseThatWereMeant) {
  Subprocess sleeper({"sleep", "60"});
  signal_all(descendants_of(::getpid()), SIGTERM);
  EXPECT_EQ(sleeper.wait().signal, SIGTERM);
}

TEST(DescendantsTest, NeverSignalsAStrangerWithTheSameNumber) {
  Subprocess sleeper({"sleep", "60"});
  auto stale = descendants_of(::getpid());
  for (auto& process : stale) process.start_time -= 1;
  signal_all(stale, SIGKILL);
  EXPECT_FALSE(sleeper.wait_for_exit(200ms));
}

}  // namespace
}  // namespace lockstep::launch

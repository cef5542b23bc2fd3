#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(RunFailureTest, NamesTheInstanceThatFailedAndItsLastLines) {
  const auto result = lockstep(shell({"--num-instances", "3"},
                                     "if [ $RANK = 1 ]; then seq 1 20 >&2; exit 42; fi; sleep 60"));
  EXPECT_EQ(result.exit_code, 42);
  EXPECT_THAT(result.err, ContainsRegex("lockstep: instance 1 failed: exit code 42, after "
                                        "[0-9.]+ s \\(host [^ ]+, pid [0-9]+\\)\n"
                                        "  its last lines on stderr:\n  \\| 11\n"));
  EXPECT_THAT(result.err, HasSubstr("  | 20\n  ended with it: instance 0,2 (killed by SIGTERM)\n"));
  EXPECT_THAT(result.err, Not(HasSubstr("  | 10\n")));
  EXPECT_LT(result.time.count(), 3);
}

TEST(RunFailureTest, NamesTheSignalThatKilledAnInstance) {
  const auto result =
      lockstep(shell({"--num-instances", "2"}, "[ $RANK = 0 ] && kill -SEGV $$; sleep 60"));
  EXPECT_EQ(result.exit_code, 128 + SIGSEGV);
  EXPECT_THAT(result.err, HasSubstr("instance 0 failed: killed by SIGSEGV"));
}

TEST(RunFailureTest, NeverEndsWithTheCodeOfAVictim) {
  const auto result = lockstep(shell(
      {"--num-instances", "3"}, "case $RANK in 0) exit 7;; 1) sleep 0.3; exit 3;; esac; sleep 60"));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("instance 1 failed: exit code 3"));
  EXPECT_THAT(result.err, HasSubstr("0 (exit code 7)"));
}

TEST(RunFailureTest, BlamesAVictimWhereNobodyElseFails) {
  const auto result =
      lockstep(shell({"--num-instances", "2"}, "[ $RANK = 0 ] && exit 7; sleep 60"));
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_LT(result.time.count(), 4);
}

TEST(RunFailureTest, KillsWhatIgnoresSigtermAfterTheGracePeriod) {
  const auto result =
      lockstep(shell({"--num-instances", "2", "--grace-period", "0.5"},
                     "if [ $RANK = 0 ]; then trap '' TERM; echo set; while :; do sleep 1; done; fi;"
                     "sleep 0.5; exit 5"));
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.err, HasSubstr("ended with it: instance 0 (killed by SIGKILL)"));
  EXPECT_GE(result.time.count(), 1.0);
  EXPECT_LT(result.time.count(), 4);
}

TEST(RunFailureTest, LetsInstancesEndInTheirOwnWayWithinTheGracePeriod) {
  const auto result =
      lockstep(shell({"--num-instances", "2"},
                     "trap 'echo saved; exit 0' TERM; [ $RANK = 1 ] && { sleep 0.5; exit 4; };"
                     "while :; do sleep 0.05; done"));
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.out, HasSubstr("[0] saved\n"));
  EXPECT_THAT(result.err, Not(HasSubstr("ended with it")));
}

TEST(RunFailureTest, WaitsForTheOthersWhenAnInstanceEndsWell) {
  const auto result = lockstep(shell({"--num-instances", "3"}, "sleep 0.$RANK; echo done"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("[2] done\n"));
}

TEST(RunFailureTest, StartsAFailedJobAgainAndSaysSo) {
  const auto result = lockstep(
      shell({"--num-instances", "2", "--max-restarts", "3"},
            "echo start $LOCKSTEP_RESTART_COUNT; [ $LOCKSTEP_RESTART_COUNT = 2 ] || exit 9"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, HasSubstr("lockstep: starting the job again: restart 1 of 3\n"));
  EXPECT_THAT(result.err, HasSubstr("restart 2 of 3\n"));
  EXPECT_THAT(result.err, Not(HasSubstr("restart 3 of 3\n")));
  EXPECT_THAT(result.out, HasSubstr("[1] start 2\n"));
}

TEST(RunFailureTest, GivesUpAfterTheLastRestart) {
  const auto result = lockstep(shell({"--max-restarts", "2"}, "echo start; exit 9"));
  EXPECT_EQ(result.exit_code, 9);
  EXPECT_EQ(result.out, "start\nstart\nstart\n");
}

TEST(RunFailureTest, DoesNotRestartAJobThatTheUserEnded) {
  Subprocess job(lockstep_command(shell({"--max-restarts", "5"}, "echo up; sleep 60")));
  ASSERT_TRUE(job.wait_for("up\n"));
  job.signal(SIGTERM);
  const auto result = job.wait(10s);
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
  EXPECT_EQ(result.out, "up\n");
}

TEST(RunFailureTest, EndsProcessesThatAnInstanceLeftRunning) {
  const auto mark = unique_mark("leftovers");
  const auto result = lockstep(shell({"--grace-period", "1"}, "setsid sleep 61 & echo started"),
                               {.environment = {{"LOCKSTEP_TEST_MARK", mark}}});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "started\n");
  EXPECT_THAT(result.err, ContainsRegex("ending what they left running: s[a-z]+ \\(pid [0-9]+\\)"));
  EXPECT_TRUE(processes_with("LOCKSTEP_TEST_MARK=" + mark).empty());
  EXPECT_LT(result.time.count(), 5);
}

TEST(RunFailureTest, LeavesNothingOfATreeThatIgnoresEverySignal) {
  const auto mark = unique_mark("stubborn");
  const auto result = lockstep(
      {"run", "--num-instances", "2", "--grace-period", "0.3", STUBBORN_TREE_BINARY, "exit"},
      {.environment = {{"LOCKSTEP_TEST_MARK", mark}}});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_TRUE(processes_with("LOCKSTEP_TEST_MARK=" + mark).empty());
}

}  // namespace
}  // namespace lockstep::testing

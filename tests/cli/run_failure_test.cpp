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
  const auto result = lockstep(shell({"--num-instances", "3", "--grace-period", "50"},
                                     "if [ $RANK = 1 ]; then seq 1 30 >&2; exit 42; fi; sleep 60"));
  EXPECT_EQ(result.exit_code, 42);
  EXPECT_THAT(result.err, ContainsRegex("lockstep: instance 1 failed: exit code 42, after "
                                        "[0-9.]+ s \\(host [^ ]+, pid [0-9]+\\)\n"
                                        "  its last lines on stderr:\n  \\| 11\n"));
  EXPECT_THAT(result.err, HasSubstr("  | 30\n"));
  EXPECT_THAT(result.err, Not(HasSubstr("  | 10\n")));
  EXPECT_THAT(result.err, HasSubstr("lockstep: ended with instance 1: 0,2 (killed by SIGTERM)\n"));
  EXPECT_LT(result.time.count(), 20);
}

TEST(RunFailureTest, NamesTheSignalThatKilledAnInstance) {
  const auto result =
      lockstep(shell({"--num-instances", "2"}, "[ $RANK = 0 ] && kill -SEGV $$; sleep 60"));
  EXPECT_EQ(result.exit_code, 128 + SIGSEGV);
  EXPECT_THAT(result.err, HasSubstr("instance 0 failed: killed by SIGSEGV"));
}

TEST(RunFailureTest, NeverEndsWithTheCodeOfAVictim) {
  // Instance 1 fails when instance 0, which says that it lost a peer, is gone already.
  const auto result = lockstep(shell({"--num-instances", "3"},
                                     "cd $LOCKSTEP_RUN_DIR; case $RANK in "
                                     "0) echo $$ > new; mv new pid; exit 7;; "
                                     "1) while [ ! -e pid ]; do sleep 0.01; done; while [ -e "
                                     "/proc/$(cat pid) ]; do sleep 0.01; done; exit 3;; "
                                     "esac; exec sleep 60"));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("instance 1 failed: exit code 3"));
  EXPECT_THAT(result.err, HasSubstr("0 (exit code 7)"));
}

TEST(RunFailureTest, BlamesTheFirstToDieNotTheFirstToBeBorn) {
  // Instance 0 dies of the death of instance 1, by a code of its own. The kernel closes the files
  // of a process a moment before it is dead, so on a busy machine the victim may be dead first.
  // What can be had is the order of deaths (DeathWatchTest), which is right nearly always. The
  // order of births is wrong always.
  const ScratchFolder folder;
  const auto fifo = folder.path() + "/fifo";
  run({"mkfifo", fifo});
  bool blamed_the_cause = false;
  for (int round = 0; round < 10 && !blamed_the_cause; ++round) {
    const auto result = lockstep(shell(
        {"--num-instances", "2"},
        "if [ $RANK = 1 ]; then exec 3> " + fifo + "; exit 42; fi; read x < " + fifo + "; exit 1"));
    blamed_the_cause = result.exit_code == 42;
  }
  EXPECT_TRUE(blamed_the_cause);
}

TEST(RunFailureTest, NamesTheCulpritAtOnceAndKeepsItsCodeWhenInterruptedThen) {
  Subprocess job(
      lockstep_command(shell({"--num-instances", "2", "--grace-period", "50"},
                             "cd $LOCKSTEP_RUN_DIR; if [ $RANK = 0 ]; then trap '' TERM; touch "
                             "set; while :; do sleep 0.05; done; fi;"
                             "while [ ! -e set ]; do sleep 0.01; done; echo why >&2; exit 42")));
  ASSERT_TRUE(job.wait_for("instance 1 failed: exit code 42", 30s));
  job.signal(SIGINT);
  ASSERT_TRUE(job.wait_for("lockstep: SIGINT: ending the job", 30s));
  EXPECT_TRUE(eventually(
      [&] {
        job.signal(SIGINT);
        return job.wait_for_exit(20ms);
      },
      30s));
  const auto result = job.wait();
  EXPECT_EQ(result.exit_code, 42);
  EXPECT_THAT(result.err, HasSubstr("  | why\n"));
  EXPECT_THAT(result.err, HasSubstr("lockstep: ended with instance 1: 0 (killed by SIGKILL)\n"));
}

TEST(RunFailureTest, ReportsEvenWhereStderrIsFullAtThatMoment) {
  const auto result =
      run({"sh", "-c",
           std::string(LOCKSTEP_BINARY) +
               " run --tag-output never sh -c 'head -c 65536 /dev/zero | tr \"\\0\" x >&2; "
               "exit 3' 2>&1 | (sleep 0.5; tail -c 2000)"});
  EXPECT_THAT(result.out, HasSubstr("instance 0 failed: exit code 3"));
}

TEST(RunFailureTest, BlamesAVictimWhereNobodyElseFails) {
  const auto result = lockstep(
      shell({"--num-instances", "2", "--grace-period", "50"}, "[ $RANK = 0 ] && exit 7; sleep 60"));
  EXPECT_EQ(result.exit_code, 7);
  EXPECT_LT(result.time.count(), 20);
}

TEST(RunFailureTest, KillsWhatIgnoresSigtermAfterTheGracePeriod) {
  const auto result = lockstep(shell({"--num-instances", "2", "--grace-period", "0.5"},
                                     "cd $LOCKSTEP_RUN_DIR; if [ $RANK = 0 ]; then trap '' TERM; "
                                     "touch set; while :; do sleep 1; done; fi;"
                                     "while [ ! -e set ]; do sleep 0.01; done; exit 5"));
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_THAT(result.err, HasSubstr("lockstep: ended with instance 1: 0 (killed by SIGKILL)\n"));
  EXPECT_GE(result.time.count(), 0.5);
  EXPECT_LT(result.time.count(), 20);
}

TEST(RunFailureTest, LetsInstancesEndInTheirOwnWayWithinTheGracePeriod) {
  const auto result = lockstep(shell(
      {"--num-instances", "2"},
      "cd $LOCKSTEP_RUN_DIR; if [ $RANK = 0 ]; then trap 'echo saved; exit 0' TERM; touch set; "
      "while :; do sleep 0.05; done; fi;"
      "while [ ! -e set ]; do sleep 0.01; done; exit 4"));
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.out, HasSubstr("[0] saved\n"));
  EXPECT_THAT(result.err, Not(HasSubstr("ended with")));
}

TEST(RunFailureTest, WaitsForTheOthersWhenAnInstanceEndsWell) {
  const auto result = lockstep(shell({"--num-instances", "3"}, "sleep 0.$RANK; echo done"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("[2] done\n"));
}

TEST(RunFailureTest, ReportsALineThatWasNeverFinished) {
  const auto result =
      lockstep(shell({"--grace-period", "0.3"}, "sleep 60 & printf 'fatal: no disk' >&2; exit 3"));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("  | fatal: no disk\n"));
}

TEST(RunFailureTest, LetsOrphansEndInTheirOwnWayWhileAnInstanceStillRuns) {
  const auto result = lockstep(shell(
      {"--num-instances", "2", "--grace-period", "4"},
      "cd $LOCKSTEP_RUN_DIR; if [ $RANK = 0 ]; then trap '' TERM; touch set; while :; do sleep "
      "0.05; done; fi; "
      "setsid sh -c 'trap \"echo saved; exit\" TERM; touch ready; while :; do sleep 0.05; done' & "
      "while [ ! -e set -o ! -e ready ]; do sleep 0.01; done; exit 3"));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.out, HasSubstr("[1] saved\n"));
}

TEST(RunFailureTest, ReadsAFileFromItsBeginningWhenStartedAgain) {
  const auto result = lockstep({"run", "--max-restarts", "1", "sh"},
                               {.input = "echo try $LOCKSTEP_RESTART_COUNT; exit 3\n"});
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_EQ(result.out, "try 0\ntry 1\n");
}

TEST(RunFailureTest, BeginsItsReportOnALineOfItsOwn) {
  const auto result = lockstep(shell({"--tag-output", "never"}, "printf fatal >&2; exit 3"));
  EXPECT_THAT(result.err, HasSubstr("fatal\nlockstep: instance 0 failed"));
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
  const auto result = job.wait(30s);
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
  EXPECT_LT(result.time.count(), 20);
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

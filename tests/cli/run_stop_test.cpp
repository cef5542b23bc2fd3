#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

/// Instances that end because they were asked to, and instances that stand still.
namespace lockstep::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kStopped = 75;

TEST(RunStopTest, AJobThatStopsIsNeitherFailedNorStartedAgain) {
  const auto result =
      lockstep(shell({"--num-instances", "2", "--max-restarts", "3"}, "echo up; exit 75"));
  EXPECT_EQ(result.exit_code, kStopped);
  EXPECT_EQ(sorted_lines(result.out), "[0] up\n[1] up\n");
  EXPECT_EQ(result.err, "");
}

TEST(RunStopTest, SomeMayHaveNothingLeftToDo) {
  EXPECT_EQ(lockstep(shell({"--num-instances", "2"}, "exit $((RANK * 75))")).exit_code, kStopped);
}

TEST(RunStopTest, AFailureIsAFailureAllTheSame) {
  const auto result =
      lockstep(shell({"--num-instances", "2"}, "if [ $RANK = 0 ]; then exit 75; fi; exit 3"));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("instance 1 failed: exit code 3"));
}

TEST(RunStopTest, EndsThoseThatDoNotStopAfterTheGracePeriod) {
  const auto result = lockstep(shell({"--num-instances", "2", "--grace-period", "0.3"},
                                     "if [ $RANK = 0 ]; then exit 75; fi; exec sleep 60"));
  EXPECT_EQ(result.exit_code, kStopped);
  EXPECT_GE(result.time.count(), 0.3);
  EXPECT_LT(result.time.count(), 30);
}

TEST(RunStopTest, GivesTheOthersTimeToStop) {
  const auto result =
      lockstep(shell({"--num-instances", "2", "--grace-period", "20"},
                     "if [ $RANK = 0 ]; then exit 75; fi; sleep 0.5; echo saved; exit 75"));
  EXPECT_EQ(result.exit_code, kStopped);
  EXPECT_EQ(result.out, "[1] saved\n");
}

Finished terminated(const std::string& script) {
  Subprocess job(lockstep_command(shell({"--num-instances", "2", "--max-restarts", "1"}, script)));
  EXPECT_TRUE(job.wait_for("[0] up\n") && job.wait_for("[1] up\n"));
  job.signal(SIGTERM);
  return job.wait();
}

TEST(RunStopTest, AnInterruptedJobThatStopsWellSaysSo) {
  EXPECT_EQ(terminated("trap 'exit 75' TERM; echo up; while :; do sleep 0.05; done").exit_code,
            kStopped);
}

TEST(RunStopTest, AnInterruptedJobOfWhichOneDoesNotStopWellWasInterrupted) {
  EXPECT_EQ(
      terminated("[ $RANK = 0 ] && trap 'exit 75' TERM; echo up; while :; do sleep 0.05; done")
          .exit_code,
      128 + SIGTERM);
}

TEST(RunStopTest, KillsAnInstanceThatIsStoppedForTooLong) {
  const auto result = lockstep(shell({"--stall-timeout", "0.3"}, "kill -STOP $$"));
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
  EXPECT_THAT(result.err,
              ContainsRegex("lockstep: instance 0 was stopped for [0-9.]+ s, longer than "
                            "--stall-timeout, and was killed \\(host "));
  EXPECT_THAT(result.err, Not(HasSubstr("out of memory")));
  EXPECT_THAT(result.err, HasSubstr("lockstep: 1 stall (instance 0), "));
}

TEST(RunStopTest, StartsAJobAgainThatWasStoppedForTooLong) {
  const auto result =
      lockstep(shell({"--stall-timeout", "0.3", "--max-restarts", "1"},
                     "[ $LOCKSTEP_RESTART_COUNT = 1 ] || kill -STOP $$; echo over"));
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.out, "over\n");
  EXPECT_THAT(result.err, HasSubstr("lockstep: 1 restart: instance 0 stopped for "));
}

TEST(RunStopTest, AJobThatTheUserStopsMayStandStillForLong) {
  const ScratchFolder folder;
  Subprocess job(
      lockstep_command(shell({"--stall-timeout", "0.2"}, "echo up; while [ ! -e " + folder.path() +
                                                             "/end ]; do sleep 0.05; done")));
  ASSERT_TRUE(job.wait_for("up\n"));
  job.signal(SIGTSTP);
  EXPECT_FALSE(job.wait_for_exit(1s));  // longer than it may be stopped by somebody else
  job.signal(SIGCONT);
  folder.write("end", "");
  EXPECT_EQ(job.wait(30s).exit_code, 0);
}

TEST(RunStopTest, WithoutADeadlineAStoppedInstanceIsWaitedFor) {
  Subprocess job(
      lockstep_command(shell({"--stall-timeout", "0"}, "echo $$; kill -STOP $$; echo over")));
  ASSERT_TRUE(job.wait_for("\n"));
  const pid_t instance = std::stoi(job.out());
  EXPECT_FALSE(job.wait_for_exit(500ms));
  EXPECT_TRUE(eventually(
      [&] {
        ::kill(instance, SIGCONT);
        return job.wait_for_exit(20ms);
      },
      30s));
  EXPECT_EQ(job.wait(30s).exit_code, 0);
}

}  // namespace
}  // namespace lockstep::testing

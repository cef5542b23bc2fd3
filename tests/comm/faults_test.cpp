#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <random>
#include <vector>

#include "tests/comm/worker_job.h"
#include "tests/support/subprocess.h"

/// Instances that die, stop or disagree in the middle of collectives.
namespace lockstep::testing {
namespace {

using ::testing::AnyOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr int kInstances = 4;

struct Fault {
  std::string name;
  int signal;
  int exit_code;
  std::string verdict;
  double deadline;  ///< seconds from the fault to the end of the last survivor, in most rounds
  friend void PrintTo(const Fault& fault, std::ostream* out) { *out << fault.name; }
};

class FaultsTest : public ::testing::TestWithParam<Fault> {};

TEST_P(FaultsTest, InAStreamOfCollectivesAreBlamedOnWhoHasThem) {
  std::mt19937 random(7);
  std::vector<double> seconds;
  for (int round = 0; round < 25; ++round) {
    WorkerJob job({"stream"}, {.instances = kInstances, .stall_timeout = "1"});
    for (int rank = 0; rank < kInstances; ++rank) ASSERT_TRUE(job.process(rank).wait_for("ready"));
    const int victim = static_cast<int>(random() % kInstances);
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20000));
    const auto begin = std::chrono::steady_clock::now();
    job.process(victim).signal(GetParam().signal);
    for (int rank = 0; rank < kInstances; ++rank) {
      if (rank == victim) continue;
      const auto finished = job.wait(rank);
      EXPECT_EQ(finished.exit_code, GetParam().exit_code) << finished.err;
      EXPECT_THAT(
          finished.err,
          ContainsRegex("(all_reduce #[0-9]+ \"gradients\"|barrier #[0-9]+): instance " +
                        std::to_string(victim) + " \\(host [^ ]+, pid " +
                        std::to_string(job.process(victim).pid()) + "\\) " + GetParam().verdict));
    }
    const std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
    seconds.push_back(time.count());
    job.process(victim).signal(SIGKILL);
  }
  // A single round may be late where others use the machine.
  std::ranges::sort(seconds);
  EXPECT_LT(seconds[seconds.size() / 2], GetParam().deadline);
  EXPECT_LT(seconds.back(), 20);
}

INSTANTIATE_TEST_SUITE_P(
    Signals, FaultsTest,
    ::testing::Values(Fault{"kill", SIGKILL, 7, "is gone; it finished #[0-9]+", 1.0},
                      Fault{"stop", SIGSTOP, 6,
                            "has not arrived after 1 s; it finished #[0-9]+; it is stopped", 4.0}),
    [](const auto& parameter) { return parameter.param.name; });

TEST(FaultsTest, TwoDeathsAtOnceDoNotHang) {
  WorkerJob job({"stream"}, {.instances = kInstances, .stall_timeout = "30"});
  for (int rank = 0; rank < kInstances; ++rank) ASSERT_TRUE(job.process(rank).wait_for("ready"));
  job.process(1).signal(SIGKILL);
  job.process(2).signal(SIGKILL);
  for (const int rank : {0, 3}) {
    const auto finished = job.wait(rank);
    EXPECT_EQ(finished.exit_code, 7);
    EXPECT_THAT(finished.err, AnyOf(HasSubstr("instance 1 "), HasSubstr("instance 2 ")));
  }
}

TEST(FaultsTest, ADeathWhileAnotherIsStoppedDoesNotHang) {
  WorkerJob job({"stream"}, {.instances = kInstances, .stall_timeout = "30"});
  for (int rank = 0; rank < kInstances; ++rank) ASSERT_TRUE(job.process(rank).wait_for("ready"));
  job.process(3).signal(SIGSTOP);
  job.process(0).signal(SIGKILL);
  for (const int rank : {1, 2}) EXPECT_EQ(job.wait(rank).exit_code, 7);
  job.process(3).signal(SIGKILL);
}

// Who has arrived at a gate and dies there is not late, but gone all the same.
TEST(FaultsTest, ADeathInTheGateIsNoticedWhileAnotherIsStopped) {
  WorkerJob job({"stream"}, {.instances = kInstances, .stall_timeout = "30"});
  for (int rank = 0; rank < kInstances; ++rank) ASSERT_TRUE(job.process(rank).wait_for("ready"));
  job.process(3).signal(SIGSTOP);
  std::this_thread::sleep_for(
      300ms);  // for the others to reach the gate; if they have not: the test above
  job.process(0).signal(SIGKILL);
  for (const int rank : {1, 2}) {
    const auto finished = job.wait(rank);
    EXPECT_EQ(finished.exit_code, 7);
    EXPECT_THAT(finished.err, HasSubstr("instance 0 "));
  }
  job.process(3).signal(SIGKILL);
}

TEST(FaultsTest, AJobThatIsStoppedAsAWholeGoesOnWhenItIsContinued) {
  WorkerJob job({"stream"}, {.instances = kInstances, .stall_timeout = "1"});
  for (int rank = 0; rank < kInstances; ++rank) ASSERT_TRUE(job.process(rank).wait_for("ready"));
  const auto signal_all = [&](int number) {
    for (int rank = 0; rank < kInstances; ++rank) job.process(rank).signal(number);
  };
  signal_all(SIGSTOP);
  std::this_thread::sleep_for(1500ms);  // longer than the deadline
  signal_all(SIGCONT);
  EXPECT_FALSE(job.process(0).wait_for_exit(700ms));
  signal_all(SIGKILL);
}

TEST(FaultsTest, AStuckInstanceIsNamedWithWhatItDidLastAndItsStack) {
  WorkerJob job({"late", "60", "silent"}, {.instances = 3, .stall_timeout = "1"});
  const auto finished = job.wait(0);
  EXPECT_EQ(finished.exit_code, 6);
  EXPECT_THAT(finished.err, ContainsRegex("all_reduce #2 \"layer3\": instance 1 \\(host [^ ]+, pid "
                                          "[0-9]+\\) has not arrived after 1 s; it finished #1"));
  EXPECT_THAT(finished.err, HasSubstr("try: raise --stall-timeout"));
  if (run({"sh", "-c", "command -v eu-stack"}).exit_code != 0) {
    GTEST_SKIP() << "no eu-stack here: no stack to see";
  }
  EXPECT_THAT(finished.err + job.wait(2).err, ContainsRegex("stands in\n(.*\n)* +.*late\\("));
}

TEST(FaultsTest, AnInstanceThatBeatsIsNotLate) {
  WorkerJob job({"late", "2.5", "beating"}, {.instances = 3, .stall_timeout = "1"});
  for (int rank = 0; rank < 3; ++rank) EXPECT_EQ(job.wait(rank).exit_code, 0);
}

TEST(FaultsTest, ADisagreementEndsEveryInstanceWithBothSides) {
  WorkerJob job({"disagree"}, {.instances = 3});
  for (int rank = 0; rank < 3; ++rank) {
    const auto finished = job.wait(rank);
    EXPECT_EQ(finished.exit_code, 2);
    EXPECT_THAT(finished.err, HasSubstr("called all_reduce(sum, 1024 f32)"));
    EXPECT_THAT(finished.err, HasSubstr("called all_reduce(sum, 512 f32)"));
  }
}

TEST(FaultsTest, WhoLeavesEarlyIsMissedAtOnce) {
  WorkerJob job({"leave_early"}, {.instances = 3});
  EXPECT_EQ(job.wait(1).exit_code, 0);
  for (const int rank : {0, 2}) {
    const auto finished = job.wait(rank);
    EXPECT_EQ(finished.exit_code, 7);
    EXPECT_THAT(finished.err, HasSubstr("barrier #2: instance 1 (host "));
    EXPECT_LT(finished.time.count(), 20.0);
  }
}

TEST(FaultsTest, TheLauncherShowsTheVerdictAndEndsWithItsCode) {
  const auto job = lockstep({"run", "--num-instances", "3", "--stall-timeout", "1",
                             COMM_WORKER_BINARY, "late", "60", "silent"});
  EXPECT_EQ(job.exit_code, 6);
  EXPECT_THAT(job.err, ContainsRegex("\\| lockstep: all_reduce #2 \"layer3\": instance 1 "));
}

}  // namespace
}  // namespace lockstep::testing

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/version.h"
#include "tests/comm/worker_job.h"
#include "tests/support/subprocess.h"

/// Collectives between real processes, under lockstep's launcher and others'.
namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;

Finished run_workers(std::vector<std::string> options, std::vector<std::string> arguments) {
  std::vector<std::string> command{"run"};
  command.insert(command.end(), options.begin(), options.end());
  command.emplace_back(COMM_WORKER_BINARY);
  command.insert(command.end(), arguments.begin(), arguments.end());
  return lockstep(command);
}

class ProcessesTest : public ::testing::TestWithParam<int> {};

TEST_P(ProcessesTest, GiveTheReferencesBitsForEachOperationAndType) {
  const auto job =
      run_workers({"--num-instances", std::to_string(GetParam())}, {"every_collective"});
  EXPECT_EQ(job.exit_code, 0) << job.err;
}

TEST_P(ProcessesTest, GiveTheSameBitsForEightLeaves) {
  const auto job = run_workers({"--num-instances", std::to_string(GetParam())}, {"leaves", "8"});
  EXPECT_EQ(job.exit_code, 0) << job.err;
}

INSTANTIATE_TEST_SUITE_P(Instances, ProcessesTest, ::testing::Values(1, 2, 3, 4, 5, 8));

TEST(ProcessesTest, KeepUpThroughTenThousandMixedCollectives) {
  // Sanitizers make it slow, and see as much in fewer rounds.
  const std::string rounds = sanitizers().empty() ? "10000" : "500";
  const auto job = run_workers({"--num-instances", "8"}, {"mixture", rounds});
  EXPECT_EQ(job.exit_code, 0) << job.err;
}

TEST(ProcessesTest, OneAloneMayUseSharedMemoryToo) {
  const auto job = run_workers({"--transport", "shm"}, {"leaves", "8"});
  EXPECT_EQ(job.exit_code, 0) << job.err;
}

TEST(ProcessesTest, RefuseATransportForThreads) {
  const auto job = run_workers({"--num-instances", "2", "--transport", "local"}, {"leaves", "8"});
  EXPECT_EQ(job.exit_code, 2);
  EXPECT_THAT(job.err, HasSubstr("transport local connects threads of one process, but there are "
                                 "2 instances"));
}

TEST(ProcessesTest, MeetWithTheVariablesOfTorchrun) {
  WorkerJob job({"leaves", "8"}, {.instances = 3});
  for (int rank = 0; rank < 3; ++rank) {
    const auto finished = job.wait(rank);
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
  }
}

TEST(ProcessesTest, MeetUnderMpirun) {
  if (run({"sh", "-c", "command -v mpirun"}).exit_code != 0) GTEST_SKIP() << "no mpirun here";
  const auto job = run({"mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "3",
                        COMM_WORKER_BINARY, "leaves", "8"});
  EXPECT_EQ(job.exit_code, 0) << job.err;
}

TEST(ProcessesTest, NeedAPlaceToMeet) {
  const auto one = run({COMM_WORKER_BINARY, "leaves", "8"},
                       {.environment = {{"RANK", "0"}, {"WORLD_SIZE", "2"}}});
  EXPECT_EQ(one.exit_code, 2);
  EXPECT_THAT(one.err, HasSubstr("nothing says where the 2 instances meet"));
}

TEST(ProcessesTest, NameWhoDoesNotComeToTheMeeting) {
  WorkerJob job({"leaves", "8"}, {.instances = 2, .world_size = 4, .stall_timeout = "5"});
  const auto first = job.wait(0);
  EXPECT_EQ(first.exit_code, 6);
  EXPECT_THAT(first.err, HasSubstr("meeting: instances 2,3 of 4 have not come after 5 s"));
  const auto second = job.wait(1);
  EXPECT_EQ(second.exit_code, 6);
  EXPECT_THAT(second.err, HasSubstr("meeting: instances 2,3 of 4 have not come after 5 s"));
}

TEST(ProcessesTest, NameTheFirstWhereItDoesNotOpenTheMeeting) {
  const auto second = run({COMM_WORKER_BINARY, "leaves", "8"},
                          {.environment = {{"RANK", "1"},
                                           {"WORLD_SIZE", "2"},
                                           {"MASTER_ADDR", "127.0.0.1"},
                                           {"MASTER_PORT", "1"},
                                           {"LOCKSTEP_STALL_TIMEOUT", "0.5"}}});
  EXPECT_EQ(second.exit_code, 6);
  EXPECT_THAT(second.err, HasSubstr("meeting: instance 0 of 2 has not opened it after"));
}

TEST(ProcessesTest, RefuseToBeOneInstanceTwice) {
  WorkerJob job({"leaves", "8"}, {.instances = 2, .world_size = 3});
  auto twin = job.start_again(1);
  const auto first = job.wait(0);
  EXPECT_EQ(first.exit_code, 2);
  EXPECT_THAT(first.err, HasSubstr("meeting: two processes say that they are instance 1"));
}

TEST(ProcessesTest, MissTheFirstAtOnceWhereItDiesInTheMeeting) {
  WorkerJob job({"leaves", "8"}, {.instances = 2, .world_size = 3});
  // It has come when it has the memory of the job.
  const auto maps = "/proc/" + std::to_string(job.process(1).pid()) + "/maps";
  ASSERT_TRUE(eventually(
      [&] { return read_file(maps).find("/memfd:lockstep") != std::string::npos; }, 20s));
  job.process(0).signal(SIGKILL);
  const auto second = job.wait(1);
  EXPECT_EQ(second.exit_code, 7) << second.err;
  EXPECT_THAT(second.err, HasSubstr("instance 0 (host "));
  EXPECT_LT(second.time.count(), 20.0);
}

TEST(ProcessesTest, RefuseToMeetThoseOfAnotherSize) {
  WorkerJob job({"leaves", "8"}, {.instances = 1, .world_size = 2});
  auto other = job.start_again(1, {{"WORLD_SIZE", "3"}});
  EXPECT_THAT(job.wait(0).err, HasSubstr("instance 0 is one of 2, instance 1 one of 3"));
  EXPECT_THAT(other->wait().err, HasSubstr("instance 0 is one of 2, instance 1 one of 3"));
}

TEST(ProcessesTest, SayWhatIsAvailableWhereTooMuchMemoryIsAskedFor) {
  WorkerJob job({"allocate_too_much"}, {.instances = 2});
  for (int rank = 0; rank < 2; ++rank) {
    const auto finished = job.wait(rank);
    EXPECT_EQ(finished.exit_code, 4);
    EXPECT_THAT(finished.err, HasSubstr("huge: shared memory: 1125899906842624 bytes are asked"));
  }
}

TEST(ProcessesTest, InstancesOnOtherHostsAreNotReachedYet) {
  const auto one = run(
      {COMM_WORKER_BINARY, "leaves", "8"},
      {.environment = {
           {"RANK", "0"}, {"WORLD_SIZE", "4"}, {"LOCAL_WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}}});
  EXPECT_EQ(one.exit_code, 4);
  EXPECT_THAT(one.err, HasSubstr("2 of 4 instances are on other hosts"));
}

}  // namespace
}  // namespace lockstep::testing

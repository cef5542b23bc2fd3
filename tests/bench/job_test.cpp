#include "bench/comm/job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::bench {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

constexpr Cell kCell{Collective::AllReduce, 4096, 1};

/// Starts doubles that behave in one way, and looks whether any process of them is left.
class BenchJobTest : public ::testing::Test {
 protected:
  BenchJobTest() : environment_(topology::Environment::of_this_process()) {
    environment_.set("BENCH_JOB_TEST", mark_);
  }
  void TearDown() override {
    EXPECT_TRUE(testing::processes_with("BENCH_JOB_TEST=" + mark_).empty());
  }

  Job start(const std::string& how, int instances = 1, std::chrono::milliseconds patience = 20s) {
    const System system{
        "double", {LOCKSTEP_BINARY, "run", "--num-instances"}, {COMM_DOUBLE_BINARY, how}};
    return Job(system, instances, folder_.path(), environment_, patience);
  }

  template <typename Function>
  static void expect_error(ErrorKind kind, const std::string& message, Function&& function) {
    try {
      function();
      ADD_FAILURE() << "expected an error: " << message;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), kind);
      EXPECT_EQ(std::string(error.what()), message);
    }
  }

  testing::ScratchFolder folder_;
  std::string mark_ = testing::unique_mark("bench-job");
  topology::Environment environment_;
};

TEST_F(BenchJobTest, VerifiesMeasuresAndEnds) {
  auto job = start("right");
  EXPECT_EQ(job.name(), "double");
  job.verify(kCell);
  const auto samples = job.measure(kCell, 7);
  ASSERT_EQ(samples.size(), 7U);
  for (const auto sample : samples) EXPECT_GT(sample, Seconds(0));
  job.finish();
}

TEST_F(BenchJobTest, NamesTheElementThatIsWrong) {
  auto job = start("wrong");
  try {
    job.verify(kCell);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Io);
    EXPECT_THAT(error.what(), HasSubstr("bench comm: all_reduce 4 KiB, 1 instances: double "
                                        "computes wrong: element 0 of instance 0 is "));
  }
}

TEST_F(BenchJobTest, NamesTheCellInWhichAJobFails) {
  auto job = start("quits");
  expect_error(ErrorKind::Io,
               "bench comm: double with 1 instances failed in all_reduce 4 KiB, 1 instances, with "
               "exit code 3",
               [&] { job.measure(kCell, 1); });
}

TEST_F(BenchJobTest, GivesUpOnAJobThatHangsAndEndsIt) {
  auto job = start("hangs", 1, 5s);
  expect_error(ErrorKind::Timeout,
               "bench comm: double with 1 instances was silent for 5000ms in all_reduce 4 KiB, 1 "
               "instances",
               [&] { job.measure(kCell, 1); });
}

TEST_F(BenchJobTest, RefusesAJobThatEndsIll) {
  auto job = start("ends-ill");
  expect_error(ErrorKind::Io,
               "bench comm: double with 1 instances failed after all was measured, with exit code "
               "1",
               [&] { job.finish(); });
}

TEST_F(BenchJobTest, RefusesInstancesThatSayTheSameRank) {
  expect_error(ErrorKind::Io, "bench comm: double: expected instances 0 to 1, found 0 twice",
               [&] { start("twin", 2); });
}

TEST_F(BenchJobTest, RefusesAProgramThatDoesNotConnect) {
  const System system{"sh", {"sh", "-c", "exit 9", "sh"}, {"worker"}};
  expect_error(ErrorKind::Io,
               "bench comm: sh with 2 instances failed before all instances were ready, with exit "
               "code 9",
               [&] { Job(system, 2, folder_.path(), environment_); });
}

}  // namespace
}  // namespace lockstep::bench

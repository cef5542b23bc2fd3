#include "lockstep/events/job_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::events {
namespace {

using ::testing::ElementsAre;

LogEntry stall(int instance, const char* kind) {
  return {.event = "stall", .instance = instance, .more = {{"kind", kind}}};
}

TEST(JobSummaryTest, TellsWhyTheJobWasStartedAgain) {
  const std::vector<LogEntry> log{
      {.event = "failure", .instance = 1, .step = 120, .more = {{"signal", "SIGKILL"}}},
      {.event = "restart", .step = 120},
      {.event = "failure", .instance = 3, .step = 240, .more = {{"exit_code", 6}}},
      {.event = "restart"},
      {.event = "failure", .instance = 0, .more = {{"signal", "SIGKILL"}, {"stopped", 60.01}}},
      {.event = "restart"},
      {.event = "failure", .instance = 2, .more = {{"exit_code", 9}}},
      {.event = "end", .more = {{"seconds", 58.12}}}};
  const auto summary = summarize(log);
  ASSERT_EQ(summary.restarts.size(), 3U);  // the last failure was followed by none
  EXPECT_EQ(summary.restarts[0].who, "instance 1");
  EXPECT_EQ(summary.restarts[0].cause, "killed by SIGKILL");
  EXPECT_EQ(summary.restarts[0].step, 120);
  EXPECT_EQ(summary.restarts[1].cause, "exit code 6");
  EXPECT_EQ(summary.restarts[2].cause, "stopped for 60 s");
  EXPECT_EQ(summary.restarts[2].step, std::nullopt);
  EXPECT_EQ(summary.run_time.count(), 58.12);
}

TEST(JobSummaryTest, CountsAnInstanceThatIsLateAndThenGivenUpOnce) {
  const std::vector<LogEntry> log{stall(1, "late"),    stall(1, "late"),     stall(1, "overdue"),
                                  stall(2, "stopped"), {.event = "restart"}, stall(1, "overdue")};
  const auto summary = summarize(log);
  EXPECT_EQ(summary.stalls, 4);
  EXPECT_THAT(summary.stalled, ElementsAre(1, 2));
}

TEST(JobSummaryTest, CountsCheckpointsAndThoseThatFailed) {
  const std::vector<LogEntry> log{{.event = "checkpoint", .step = 100},
                                  {.event = "checkpoint", .step = 200, .more = {{"error", "x"}}},
                                  {.event = "checkpoint", .step = 150}};
  const auto summary = summarize(log);
  EXPECT_EQ(summary.checkpoints, 2);
  EXPECT_EQ(summary.failed_checkpoints, 1);
  EXPECT_EQ(summary.last_checkpoint, 150);
}

TEST(JobSummaryTest, HasNothingToTellOfAJobThatWasLeftAlone) {
  const std::vector<LogEntry> log{{.event = "start", .instance = 0},
                                  {.event = "death", .instance = 0, .more = {{"exit_code", 0}}},
                                  {.event = "end", .more = {{"seconds", 1.0}}}};
  EXPECT_FALSE(summarize(log).is_eventful());
  const std::vector<LogEntry> chaos{{.event = "chaos", .instance = 0}};
  EXPECT_TRUE(summarize(chaos).is_eventful());
  EXPECT_EQ(summarize(chaos).faults, 1);
}

}  // namespace
}  // namespace lockstep::events

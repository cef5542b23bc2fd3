#include "lockstep/ui/job_report.h"

#include <gtest/gtest.h>

namespace lockstep::ui {
namespace {

using events::JobSummary;

TEST(JobReportTest, SumsAJobUpInTwoLines) {
  JobSummary summary;
  summary.restarts = {{"instance 1", "killed by SIGKILL", 120},
                      {"instance 3", "exit code 6", std::nullopt}};
  summary.faults = 5;
  summary.stalls = 2;
  summary.stalled = {3};
  summary.checkpoints = 4;
  summary.last_checkpoint = 400;
  summary.run_time = events::Seconds(58.12);
  EXPECT_EQ(
      describe(summary),
      "lockstep: 2 restarts: instance 1 killed by SIGKILL at step 120, instance 3 exit code 6\n"
      "lockstep: 5 faults injected, 2 stalls (instance 3), 4 checkpoints (the last at step "
      "400), 58.1 s\n");
}

TEST(JobReportTest, TellsOneFromSeveral) {
  JobSummary summary;
  summary.faults = 1;
  summary.stalls = 1;
  summary.stalled = {0, 2};
  summary.checkpoints = 1;
  summary.last_checkpoint = 7;
  summary.failed_checkpoints = 2;
  EXPECT_EQ(describe(summary),
            "lockstep: 1 fault injected, 1 stall (instances 0,2), 1 checkpoint (at step 7), 2 that "
            "could not be written, 0.0 s\n");
}

TEST(JobReportTest, LeavesOutWhatWasNot) {
  JobSummary summary;
  EXPECT_EQ(describe(summary), "");
  summary.restarts = {{"instance 0", "exit code 9", std::nullopt}};
  EXPECT_EQ(describe(summary), "lockstep: 1 restart: instance 0 exit code 9\n");
  summary.restarts.assign(10, {"instance 0", "exit code 9", 1});
  EXPECT_TRUE(describe(summary).ends_with("instance 0 exit code 9 at step 1, and 2 more\n"));
}

}  // namespace
}  // namespace lockstep::ui

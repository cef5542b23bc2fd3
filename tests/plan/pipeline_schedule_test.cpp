#include "lockstep/plan/pipeline_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::plan {
namespace {

using ::testing::ElementsAre;
using enum PipelineSchedule;

std::vector<std::int64_t> in_flight(const PipelineShape& shape) {
  std::vector<std::int64_t> counts;
  for (int stage = 0; stage < shape.stages; ++stage) {
    counts.push_back(most_in_flight(shape, stage));
  }
  return counts;
}

TEST(PipelineScheduleTest, SchedulesHaveTheNamesOfTheOption) {
  EXPECT_EQ(name_of(OneForwardOneBackward), "1f1b");
  EXPECT_EQ(name_of(GPipe), "gpipe");
  EXPECT_EQ(name_of(Sequential), "sequential");
}

TEST(PipelineScheduleTest, WhatIsRecomputedHasTheNamesOfTheOption) {
  EXPECT_EQ(name_of(Recompute::None), "none");
  EXPECT_EQ(name_of(Recompute::Stage), "stage");
  EXPECT_EQ(name_of(Recompute::Blocks), "blocks");
}

TEST(PipelineScheduleTest, OneForwardOneBackwardKeepsAMicroBatchForEachStageThatFollows) {
  EXPECT_THAT(in_flight({.stages = 4, .micro_batches = 8}), ElementsAre(4, 3, 2, 1));
  EXPECT_THAT(in_flight({.stages = 4, .micro_batches = 2}), ElementsAre(2, 2, 2, 1));
  EXPECT_THAT(in_flight({.stages = 1, .micro_batches = 8}), ElementsAre(1));
  EXPECT_EQ(most_in_flight({.stages = 2, .micro_batches = 8}, 5), 1);
}

TEST(PipelineScheduleTest, GPipeKeepsAllMicroBatchesUnlessThereIsOneStage) {
  EXPECT_THAT(in_flight({.schedule = GPipe, .stages = 3, .micro_batches = 8}),
              ElementsAre(8, 8, 8));
  EXPECT_THAT(in_flight({.schedule = GPipe, .stages = 1, .micro_batches = 8}), ElementsAre(1));
}

TEST(PipelineScheduleTest, SequentialKeepsOneMicroBatch) {
  EXPECT_THAT(in_flight({.schedule = Sequential, .stages = 3, .micro_batches = 8}),
              ElementsAre(1, 1, 1));
}

TEST(PipelineScheduleTest, DevicesAreIdleWhileThePipelineFillsAndDrains) {
  for (const auto schedule : {OneForwardOneBackward, GPipe}) {
    EXPECT_DOUBLE_EQ(idle_share({.schedule = schedule, .stages = 1, .micro_batches = 1}), 0);
    EXPECT_DOUBLE_EQ(idle_share({.schedule = schedule, .stages = 2, .micro_batches = 1}), 1 / 2.0);
    EXPECT_DOUBLE_EQ(idle_share({.schedule = schedule, .stages = 4, .micro_batches = 8}), 3 / 11.0);
    EXPECT_DOUBLE_EQ(
        idle_share({.schedule = schedule, .stages = 4, .micro_batches = 8, .replicas = 3}),
        3 / 27.0);
  }
}

TEST(PipelineScheduleTest, AllDevicesButOneAreIdleWhenStagesFollowEachOther) {
  EXPECT_DOUBLE_EQ(idle_share({.schedule = Sequential, .stages = 1}), 0);
  EXPECT_DOUBLE_EQ(idle_share({.schedule = Sequential, .stages = 4, .micro_batches = 100}), 0.75);
}

TEST(PipelineScheduleTest, SaysWhatWouldKeepTheStagesBusy) {
  EXPECT_EQ(too_few_micro_batches({.stages = 2, .micro_batches = 1}),
            "gradient accumulation 1 leaves the devices of 2 stages idle for 50 % of the time: "
            "--gradient-accumulation 2 gives each stage work, 9 brings it to 10 %");
  EXPECT_EQ(too_few_micro_batches({.schedule = GPipe, .stages = 4, .micro_batches = 2}),
            "gradient accumulation 2 leaves the devices of 4 stages idle for 60 % of the time: "
            "--gradient-accumulation 4 gives each stage work, 27 brings it to 10 %");
}

TEST(PipelineScheduleTest, CountsTheMicroBatchesOfReplicasOnTheSameDevices) {
  EXPECT_EQ(too_few_micro_batches({.stages = 4, .micro_batches = 1, .replicas = 2}),
            "gradient accumulation 1 leaves the devices of 4 stages idle for 60 % of the time: "
            "--gradient-accumulation 2 gives each stage work, 14 brings it to 10 %");
  EXPECT_EQ(too_few_micro_batches({.stages = 2, .micro_batches = 1, .replicas = 2}),
            "gradient accumulation 1 leaves the devices of 2 stages idle for 33 % of the time: "
            "--gradient-accumulation 5 brings it to 10 %");
  EXPECT_EQ(too_few_micro_batches({.stages = 2, .micro_batches = 1, .replicas = 9}), "");
}

TEST(PipelineScheduleTest, WhatItAdvisesIsTheLeastThatDoes) {
  for (int stages = 2; stages <= 9; ++stages) {
    for (int replicas = 1; replicas <= 12; ++replicas) {
      PipelineShape shape{.stages = stages, .micro_batches = 1, .replicas = replicas};
      const auto text = too_few_micro_batches(shape);
      if (text.empty()) {
        EXPECT_LE(idle_share(shape), 0.1);
        continue;
      }
      const auto words = text.substr(0, text.find(" brings it to 10 %"));
      shape.micro_batches = std::stoi(words.substr(words.rfind(' ')));
      EXPECT_LE(idle_share(shape), 0.1 + 1e-12) << text;
      --shape.micro_batches;
      EXPECT_GT(idle_share(shape), 0.1) << text;
    }
  }
}

TEST(PipelineScheduleTest, SaysNothingWhereMoreMicroBatchesWouldNotHelp) {
  EXPECT_EQ(too_few_micro_batches({.stages = 1, .micro_batches = 1}), "");
  EXPECT_EQ(too_few_micro_batches({.stages = 3, .micro_batches = 3}), "");
  EXPECT_EQ(too_few_micro_batches({.schedule = Sequential, .stages = 3, .micro_batches = 1}), "");
}

}  // namespace
}  // namespace lockstep::plan

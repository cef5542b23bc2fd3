#include "lockstep/plan/make_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/plan/stage_split.h"

namespace lockstep::plan {
namespace {

using testing::ElementsAre;

/// Four blocks whose numbers are all different.
ModelProfile profile() {
  ModelProfile profile;
  profile.is_timed = true;
  for (int i = 0; i < 4; ++i) {
    profile.blocks.push_back({.name = "block" + std::to_string(i),
                              .shares_with = i,
                              .forward_s = 1.0 + i,
                              .backward_s = 2.0 + i,
                              .parameter_bytes = 1000 * (i + 1),
                              .buffer_bytes = 10 * (i + 1),
                              .output_bytes = 100 * (i + 1),
                              .kept_bytes = 300 * (i + 1),
                              .forward_bytes = 5,
                              .backward_bytes = 7 * (i + 1)});
  }
  return profile;
}

PlanRequest request(int replicas, int instances, int stages) {
  PlanRequest request{.shape = {replicas, instances, stages},
                      .batch_size = 8,
                      .micro_batches = 8,
                      .host_cores = 2,
                      .num_elements = 2500};
  int next = 0;
  for (int i = 0; i < instances; ++i) {
    PlanRequest::Instance instance{.replicas = topology::replicas_of(i, request.shape),
                                   .loader_buffers = 16,
                                   .batch_bytes = 9};
    for (int stage = 0; stage < instance.replicas.count * stages; ++stage) {
      instance.device_ids.push_back(next++ % 2);
    }
    request.instances.push_back(instance);
  }
  return request;
}

TEST(MakePlanTest, SumsUpTheBlocksOfEachStage) {
  const auto plan = make_plan(request(1, 1, 2), profile(), {0, 3});
  ASSERT_EQ(plan.stages.size(), 2U);
  const auto& [first, second] = std::tie(plan.stages[0], plan.stages[1]);
  EXPECT_EQ(first.begins_with, "block0");
  EXPECT_EQ(first.ends_with, "block2");
  EXPECT_EQ(first.num_blocks, 3);
  EXPECT_DOUBLE_EQ(first.forward_s, 6);
  EXPECT_DOUBLE_EQ(first.backward_s, 9);
  EXPECT_EQ(first.parameter_bytes, 6000);
  EXPECT_EQ(first.output_bytes, 300);
  EXPECT_EQ(first.kept_bytes, 1800);
  EXPECT_EQ(first.most_in_flight, 2);
  EXPECT_EQ(second.begins_with, "block3");
  EXPECT_EQ(second.most_in_flight, 1);
  EXPECT_EQ(split_of(plan), (StageSplit{0, 3}));
  EXPECT_THAT(plan.buckets, ElementsAre(ElementRange{0, 2500}));
}

TEST(MakePlanTest, ForetellsWhatTheTimesOfStagesAllow) {
  auto even = profile();
  for (auto& block : even.blocks) {
    block.forward_s = 1;
    block.backward_s = 2;
  }
  const auto plan = make_plan(request(1, 1, 2), even, {0, 2});
  EXPECT_DOUBLE_EQ(plan.sequential_s, 8 * 12);
  EXPECT_DOUBLE_EQ(plan.step_s, 9 * 6);  // 16 / 9: 1.78 times as fast
  EXPECT_NEAR(plan.idle_share, 1.0 / 9, 1e-9);
}

TEST(MakePlanTest, ForetellsThatReplicasFillTheGapsOfEachOther) {
  auto even = profile();
  for (auto& block : even.blocks) block.forward_s = block.backward_s = 1;
  auto alone = request(1, 1, 2);
  auto four = request(4, 1, 2);
  alone.micro_batches = four.micro_batches = 2;
  EXPECT_NEAR(make_plan(alone, even, {0, 2}).idle_share, 1.0 / 3, 1e-9);
  EXPECT_NEAR(make_plan(four, even, {0, 2}).idle_share, 1.0 / 9, 1e-9);
}

TEST(MakePlanTest, CountsWhatTheScheduleKeepsOnEachDevice) {
  const auto plan = make_plan(request(1, 1, 2), profile(), {0, 2});
  const auto& devices = plan.instances.front().devices;
  ASSERT_EQ(devices.size(), 2U);
  // Two micro-batches under way in the first stage, one of them at its block with the most.
  EXPECT_EQ(devices[0].memory.activations, 900 + 900 + 14);
  EXPECT_EQ(devices[1].memory.activations, 2100 + 28);
  EXPECT_EQ(devices[0].memory.gradients, 3000);
  EXPECT_EQ(devices[1].memory.gradients, 7000);
  EXPECT_EQ(devices[0].memory.buffers, 30);
  EXPECT_THAT(devices[1].stages, ElementsAre(PlacedStage{0, 1}));
  EXPECT_EQ(plan.instances.front().loader_bytes, 16 * 9);
}

TEST(MakePlanTest, KeepsMoreWhereAllGoForwardFirst) {
  auto wanted = request(1, 1, 2);
  wanted.schedule = PipelineSchedule::GPipe;
  const auto plan = make_plan(wanted, profile(), {0, 2});
  EXPECT_EQ(plan.instances.front().devices[0].memory.activations, 7 * 900 + 914);
}

TEST(MakePlanTest, KeepsLessWhereItIsComputedAgain) {
  auto wanted = request(1, 1, 2);
  wanted.recompute = Recompute::Stage;
  const auto by_stage = make_plan(wanted, profile(), {0, 2});
  EXPECT_EQ(by_stage.stages[0].kept_bytes, 200 + 30);  // its output, and its buffers as they were
  wanted.recompute = Recompute::Blocks;
  const auto by_block = make_plan(wanted, profile(), {0, 2});
  EXPECT_EQ(by_block.stages[0].kept_bytes, 100 + 200 + 30);
  EXPECT_LT(by_block.instances[0].devices[1].memory.activations,
            by_stage.instances[0].devices[1].memory.activations);
}

TEST(MakePlanTest, SaysWhichReplicasAndStagesEachDeviceOfEachInstanceHas) {
  const auto plan = make_plan(request(3, 2, 2), profile(), {0, 2});
  ASSERT_EQ(plan.instances.size(), 2U);
  EXPECT_EQ(plan.instances[0].replicas, (topology::ReplicaRange{0, 2}));
  EXPECT_THAT(plan.instances[0].devices[1].stages,
              ElementsAre(PlacedStage{0, 1}, PlacedStage{1, 1}));
  EXPECT_THAT(plan.instances[1].devices[0].stages, ElementsAre(PlacedStage{2, 0}));
  // One follows the other closely, but a stage has handed in what it has of the first by then.
  EXPECT_EQ(plan.instances[0].devices[0].memory.gradients, 3000);
  EXPECT_EQ(plan.instances[1].devices[0].memory.gradients, 3000);
}

TEST(MakePlanTest, NamesTheCoresOfDevicesWhereInstancesAreBound) {
  auto wanted = request(2, 2, 1);
  wanted.instances[0].device_ids = {0};
  wanted.instances[1].device_ids = {1};
  EXPECT_THAT(make_plan(wanted, profile(), {0}).instances[1].devices[0].cores, ElementsAre());
  wanted.instances[0].cores = {0};
  wanted.instances[1].cores = {1};
  EXPECT_THAT(make_plan(wanted, profile(), {0}).instances[1].devices[0].cores, ElementsAre(1));
}

}  // namespace
}  // namespace lockstep::plan

#include "lockstep/plan/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

namespace lockstep::plan {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kGiB = 1 << 30;

/// Two stages; each instance has these devices of its own.
Plan plan_on(std::vector<DevicePlan> devices, int instances = 1) {
  Plan plan{.shape = {.replicas = instances, .instances = instances, .devices_per_replica = 2},
            .batch_size = 8,
            .micro_batches = 8,
            .stages = {{.first_block = 0, .num_blocks = 3}, {.first_block = 3, .num_blocks = 2}}};
  for (int instance = 0; instance < instances; ++instance) {
    plan.instances.push_back({.instance = instance, .devices = devices});
  }
  return plan;
}

TEST(PlanTest, AddsUpWhatIsSharedAndWhatIsPrivate) {
  auto plan = plan_on({{.memory = {.activations = 1, .gradients = 20, .buffers = 300}},
                       {.memory = {.activations = 4000, .gradients = 50'000, .buffers = 600'000}}},
                      2);
  plan.instances[1].loader_bytes = 7'000'000;
  plan.shared = {.weights = 1, .optimizer = 2, .gradients = 3, .total = 80'000'000};
  EXPECT_EQ(plan.instances[0].devices[1].memory.total(), 654'000);
  EXPECT_EQ(plan.instances[0].private_bytes(), 654'321);
  EXPECT_EQ(plan.instances[1].private_bytes(), 7'654'321);
  EXPECT_EQ(plan.total_bytes(), 88'308'642);
}

TEST(PlanTest, SumsThatAreTooLargeAreTheLargestNumber) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  auto plan = plan_on({{.memory = {.activations = kMost, .gradients = 1, .buffers = kMost}}}, 2);
  EXPECT_EQ(plan.instances[0].private_bytes(), kMost);
  EXPECT_EQ(plan.total_bytes(), kMost);
}

TEST(PlanTest, TheSplitIsTheFirstBlocksOfTheStages) {
  EXPECT_THAT(split_of(plan_on({})), ElementsAre(0, 3));
}

TEST(PlanWarningsTest, ThereAreNoneForAPlanThatFits) {
  auto plan = plan_on({{.memory = {.activations = kGiB}}});
  EXPECT_THAT(warnings_of(plan), IsEmpty()) << "what is available is not known";
  plan.available_bytes = kGiB;
  EXPECT_THAT(warnings_of(plan), IsEmpty());
  plan.available_bytes = kGiB - 1;
  EXPECT_THAT(warnings_of(plan), ElementsAre("the plan needs 1.0 GiB of memory and 1023 MiB are "
                                             "available: it needs less with a lower --batch-size, "
                                             "or --recompute=blocks"));
}

TEST(PlanWarningsTest, NamesWhatCanBeLowered) {
  auto plan = plan_on({{.memory = {.activations = 3 * kGiB}}}, 2);
  plan.available_bytes = 5 * kGiB + 900 * kMiB;
  plan.shape.replicas = 4;
  EXPECT_THAT(warnings_of(plan),
              ElementsAre("the plan needs 6.0 GiB of memory and 5.8 GiB are available: it needs "
                          "less with a lower --batch-size, or --recompute=blocks, or fewer "
                          "--replicas, or fewer --num-instances"));
  plan.batch_size = 1;
  plan.recompute = Recompute::Blocks;
  plan.shape = {.replicas = 1, .instances = 1, .devices_per_replica = 2};
  EXPECT_THAT(warnings_of(plan),
              ElementsAre("the plan needs 6.0 GiB of memory and 5.8 GiB are available: it needs "
                          "less with a smaller model"));
}

TEST(PlanWarningsTest, WhatIsNeededNeverReadsLikeWhatThereIs) {
  auto plan = plan_on({{.memory = {.activations = 8 * kGiB + 1}}});
  plan.available_bytes = 8 * kGiB;
  EXPECT_THAT(warnings_of(plan),
              ElementsAre(::testing::StartsWith(
                  "the plan needs 8.1 GiB of memory and 8.0 GiB are available")));
  plan = plan_on({{.memory = {.activations = 5 * kMiB + 1}}});
  plan.available_bytes = 5 * kMiB;
  EXPECT_THAT(
      warnings_of(plan),
      ElementsAre(::testing::StartsWith("the plan needs 6 MiB of memory and 5 MiB are available")));
}

TEST(PlanWarningsTest, TooFewMicroBatchesAreSaidAfterMemory) {
  auto plan = plan_on({{.memory = {.activations = 2}}});
  plan.available_bytes = 1;
  plan.micro_batches = 1;
  plan.idle_share = 0.5;
  const auto warnings = warnings_of(plan);
  ASSERT_EQ(warnings.size(), 2);
  EXPECT_EQ(warnings[1], too_few_micro_batches({.stages = 2, .micro_batches = 1}));
  EXPECT_NE(warnings[1], "");
}

TEST(PlanWarningsTest, ReplicasThatShareDevicesKeepThemBusy) {
  // Device 1 has stages of one replica less, and waits more.
  auto plan = plan_on({{.device = 0, .stages = {{0, 0}, {0, 1}, {1, 0}, {2, 0}}},
                       {.device = 1, .stages = {{1, 1}, {2, 1}}},
                       {.device = 2}});
  plan.micro_batches = 1;
  plan.idle_share = idle_share({.stages = 2, .micro_batches = 1, .replicas = 2});
  EXPECT_THAT(warnings_of(plan),
              ElementsAre(too_few_micro_batches({.stages = 2, .micro_batches = 1, .replicas = 2})));
}

}  // namespace
}  // namespace lockstep::plan

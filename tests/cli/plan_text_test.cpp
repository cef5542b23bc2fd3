#include "lockstep/cli/plan_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

/// Two replicas of two stages in two instances, with no two numbers the same.
plan::Plan some_plan() {
  plan::Plan plan{.model = "resnet101",
                  .shape = {.replicas = 2, .instances = 2, .devices_per_replica = 2},
                  .threads_per_device = 3,
                  .batch_size = 8,
                  .micro_batches = 4,
                  .recompute = Recompute::Blocks};
  plan.profile.is_timed = true;
  plan.stages = {{.first_block = 0,
                  .num_blocks = 14,
                  .begins_with = "conv1",
                  .ends_with = "layer3.7",
                  .forward_s = 0.0123,
                  .backward_s = 0.0256,
                  .parameter_bytes = 10 * kMiB,
                  .output_bytes = 11 * kMiB,
                  .kept_bytes = 12 * kMiB,
                  .most_in_flight = 2},
                 {.first_block = 14,
                  .num_blocks = 1,
                  .begins_with = "fc",
                  .ends_with = "fc",
                  .forward_s = 0.0141,
                  .backward_s = 0.0282,
                  .parameter_bytes = 13 * kMiB,
                  .output_bytes = 14 * kMiB,
                  .kept_bytes = 1536 * kMiB,
                  .most_in_flight = 1}};
  plan.idle_share = 0.2;
  plan.step_s = 0.1504;
  plan.sequential_s = 0.24064;
  plan.buckets = {{.first = 1000, .count = 500}, {.first = 0, .count = 1000}};
  for (int i = 0; i < 2; ++i) {
    plan::InstancePlan instance{.instance = i,
                                .replicas = {.first = i, .count = 1},
                                .slice = {.first = 750 * i, .count = 750},
                                .loader_workers = 5,
                                .loader_bytes = 20 * kMiB};
    for (int stage = 0; stage < 2; ++stage) {
      const int device = 2 * i + stage;
      instance.devices.push_back({.device = device,
                                  .cores = {3 * device, 3 * device + 1, 3 * device + 2},
                                  .stages = {{.replica = i, .stage = stage}},
                                  .memory = {.activations = (30 + device) * kMiB,
                                             .gradients = (40 + device) * kMiB,
                                             .buffers = (50 + device) * kMiB}});
    }
    plan.instances.push_back(std::move(instance));
  }
  plan.shared = {
      .weights = 60 * kMiB, .optimizer = 61 * kMiB, .gradients = 62 * kMiB, .total = 304 * kMiB};
  plan.available_bytes = 15 * 1024 * kMiB + 512 * kMiB;
  return plan;
}

std::size_t width_of(const std::string& text) {
  std::size_t widest = 0;
  std::size_t begin = 0;
  for (std::size_t end = 0; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    widest = std::max(widest, end - begin);
  }
  return widest;
}

TEST(PlanTextTest, ShowsEverythingThatIsDecided) {
  EXPECT_EQ(cli::to_text(some_plan()),
            R"(resnet101  R=2 I=2 S=2 T=3 B=8 G=4  pipeline 1f1b  recompute blocks

stage  blocks                parameters  forward ms  backward ms  sent      stored    in flight
0      conv1..layer3.7 (14)  10.0 MiB    12.3        25.6         11.0 MiB  12.0 MiB  2
1      fc (1)                13.0 MiB    14.1        28.2         -         1.5 GiB   1
devices wait for each other 20.0 % of the time
a step takes 150.4 ms, 1.60 times as fast as one stage at a time

instance  replicas  devices  cores  updates   workers  batches   own memory
0         0         0-1      0-5    0-749     5        20.0 MiB  263.0 MiB
1         1         2-3      6-11   750-1499  5        20.0 MiB  275.0 MiB

instance  device  cores  stages of replicas  activations  gradients  buffers
0         0       0-2    0 of 0              30.0 MiB     40.0 MiB   50.0 MiB
0         1       3-5    1 of 0              31.0 MiB     41.0 MiB   51.0 MiB
1         2       6-8    0 of 1              32.0 MiB     42.0 MiB   52.0 MiB
1         3       9-11   1 of 1              33.0 MiB     43.0 MiB   53.0 MiB

shared    weights 60.0 MiB, optimizer 61.0 MiB, gradients 62.0 MiB; 304.0 MiB with all versions
total     842.0 MiB of 15.5 GiB available
buckets   2, the largest of 1000 numbers
)");
}

TEST(PlanTextTest, SaysNothingOfAPipelineWhereThereIsNone) {
  auto plan = some_plan();
  plan.shape.devices_per_replica = 1;
  plan.recompute = Recompute::None;
  plan.stages.resize(1);
  plan.buckets.resize(1);
  const auto text = cli::to_text(plan);
  EXPECT_THAT(text, HasSubstr("resnet101  R=2 I=2 S=1 T=3 B=8 G=4\n\n"));
  EXPECT_THAT(text, HasSubstr("12.3        25.6         -     12.0 MiB"));
  EXPECT_THAT(text, Not(HasSubstr("wait for each other")));
  EXPECT_THAT(text, HasSubstr("buckets   1 of 500 numbers\n"));
}

TEST(PlanTextTest, HasNoTimesWhereNothingWasTimed) {
  auto plan = some_plan();
  plan.profile.is_timed = false;
  plan.step_s = 0;
  plan.sequential_s = 0;
  const auto text = cli::to_text(plan);
  EXPECT_THAT(text, HasSubstr("10.0 MiB    -           -            11.0 MiB"));
  EXPECT_THAT(text, HasSubstr("devices wait for each other 20.0 % of the time\n"));
}

TEST(PlanTextTest, JoinsWhatSharesADevice) {
  auto plan = some_plan();
  auto& instance = plan.instances.front();
  instance.devices.resize(1);
  instance.devices.front().cores.clear();
  instance.devices.front().stages = {{1, 1}, {0, 0}, {1, 0}, {2, 0}, {0, 1}};
  const auto text = cli::to_text(plan);
  EXPECT_THAT(text, HasSubstr("0         0       any    0 of 0-2, 1 of 0-1  30.0 MiB"));
  EXPECT_THAT(text, HasSubstr("0         0         0        any    0-749"));
}

TEST(PlanTextTest, HasAnInstanceThatUpdatesNothing) {
  auto plan = some_plan();
  plan.instances.front().slice = {.first = 0, .count = 0};
  EXPECT_THAT(cli::to_text(plan), HasSubstr("0         0         0-1      0-5    -         5"));
}

TEST(PlanTextTest, RoundsIntoTheNextUnit) {
  auto plan = some_plan();
  plan.available_bytes = 1024 * kMiB - 1;
  EXPECT_THAT(cli::to_text(plan), HasSubstr(" of 1.0 GiB available"));
  plan.available_bytes = 0;
  EXPECT_THAT(cli::to_text(plan), HasSubstr("total     842.0 MiB\n"));
}

TEST(PlanTextTest, FitsAHundredColumnsWithEightInstances) {
  auto plan = some_plan();
  plan.shape = {.replicas = 128, .instances = 8, .devices_per_replica = 2};
  plan.stages.front().begins_with = "layer1.0";
  plan.stages.front().ends_with = "layer3.22";
  const auto instance = plan.instances.front();
  plan.instances.assign(8, instance);
  for (int i = 0; i < 8; ++i) {
    auto& one = plan.instances[static_cast<std::size_t>(i)];
    one.instance = i;
    one.replicas = {.first = 16 * i, .count = 16};
    one.slice = {.first = 15'000'000 * i, .count = 15'000'000};
    one.loader_workers = 15;
    one.loader_bytes = 1023 * kMiB;
    one.devices.front().memory = {1023 * kMiB, 1023 * kMiB, 1023 * kMiB};
    one.devices.front().cores = {112, 113, 114, 115};
  }
  const auto text = cli::to_text(plan);
  EXPECT_THAT(text, HasSubstr("105000000-119999999"));
  EXPECT_LE(width_of(text), 100U) << text;
}

TEST(PlanTextTest, EndsWithWhereThePlanIsKept) {
  train::PlannedTraining planned{
      .plan = some_plan(), .key = "0123456789abcdef", .kept_in = "/c/plans/x.json"};
  const auto before = cli::to_text(planned.plan);
  EXPECT_EQ(cli::to_text(planned),
            before + "cache key 0123456789abcdef  (new)\nstored in /c/plans/x.json\n");
  planned.is_cached = true;
  EXPECT_THAT(cli::to_text(planned), HasSubstr("cache key 0123456789abcdef  (cached)\n"));
  planned.kept_in.clear();
  planned.is_cached = false;
  EXPECT_EQ(cli::to_text(planned), before + "cache key 0123456789abcdef  (new, not stored)\n");
}

}  // namespace
}  // namespace lockstep::testing

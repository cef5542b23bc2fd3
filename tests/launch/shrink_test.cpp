#include "lockstep/launch/place/shrink.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

topology::Machine machine_of(int cores, int per_node = 100) {
  topology::Machine machine;
  for (int i = 0; i < cores; ++i) machine.cores.push_back({i / per_node, {i, i + cores}});
  return machine;
}

RunOptions options_of(int instances, topology::BindPolicy bind) {
  RunOptions options;
  options.num_instances = instances;
  options.bind = bind;
  return options;
}

/// A job on one host, and what it becomes.
struct Job {
  Job(int instances, const topology::Machine& machine,
      topology::BindPolicy bind = topology::BindPolicy::Auto)
      : plan(plan_job(options_of(instances, bind), hosts, machine)),
        shrinker(options_of(instances, bind), hosts, machine) {}

  std::vector<int> lose(int instance) {
    auto shrunk = shrinker.without(plan, instance);
    plan = std::move(shrunk.plan);
    return shrunk.without_cores;
  }

  std::vector<topology::Host> hosts{{"a", {}}};
  JobPlan plan;
  Shrinker shrinker;
};

TEST(ShrinkTest, KeepsReplicasAndThreadsAndLeavesOutTheCores) {
  Job job(4, machine_of(8));
  EXPECT_EQ(job.plan.threads_per_device, 2);
  EXPECT_THAT(job.lose(2), ElementsAre(4, 5));
  EXPECT_EQ(job.plan.instances.size(), 3U);
  EXPECT_EQ(job.plan.placement.shape.replicas, 4);
  EXPECT_EQ(job.plan.threads_per_device, 2);
  EXPECT_EQ(job.plan.instances[0].identity.num_instances, 3);
  // Four stages share three devices now: nobody has its own, nobody may use cores 4 and 5.
  for (const auto& instance : job.plan.instances) {
    EXPECT_THAT(instance.cores, ElementsAre(0, 1, 2, 3, 6, 7));
    EXPECT_THAT(instance.cpus, ElementsAre(0, 1, 2, 3, 6, 7, 8, 9, 10, 11, 14, 15));
  }
}

TEST(ShrinkTest, BindsToTheCoresThatAreLeft) {
  Job job(4, machine_of(4), topology::BindPolicy::Core);
  EXPECT_THAT(job.lose(1), ElementsAre(1));
  ASSERT_EQ(job.plan.instances.size(), 3U);
  EXPECT_THAT(job.plan.instances[0].cores, ElementsAre(0, 2));  // two replicas
  EXPECT_THAT(job.plan.instances[1].cores, ElementsAre(3));
  EXPECT_THAT(job.plan.instances[2].cores, ElementsAre(0));
  // Core 0 is not instance 2's alone.
  EXPECT_THAT(job.lose(2), IsEmpty());
  ASSERT_EQ(job.plan.instances.size(), 2U);
  EXPECT_THAT(job.plan.instances[0].cores, ElementsAre(0, 2));
  EXPECT_THAT(job.plan.instances[1].cores, ElementsAre(0, 3));
  EXPECT_THAT(job.lose(0), ElementsAre(2));
  ASSERT_EQ(job.plan.instances.size(), 1U);
  EXPECT_THAT(job.plan.instances[0].cores, ElementsAre(0, 3));
  EXPECT_EQ(job.plan.placement.shape.replicas, 4);
}

TEST(ShrinkTest, LeavesFreeInstancesFree) {
  Job job(4, machine_of(2));
  EXPECT_THAT(job.lose(3), IsEmpty());
  EXPECT_EQ(job.plan.threads_per_device, 1);
  for (const auto& instance : job.plan.instances) EXPECT_THAT(instance.cores, IsEmpty());
}

TEST(ShrinkTest, NumbersTheNodesThatAreLeft) {
  Job job(3, machine_of(6, 2), topology::BindPolicy::Numa);
  EXPECT_THAT(job.lose(1), ElementsAre(2, 3));
  ASSERT_EQ(job.plan.instances.size(), 2U);
  EXPECT_THAT(job.plan.instances[0].cores, ElementsAre(0, 1));
  EXPECT_THAT(job.plan.instances[1].cores, ElementsAre(4, 5));
}

}  // namespace
}  // namespace lockstep::launch

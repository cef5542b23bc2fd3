#include "lockstep/topology/machine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// Cores with two hardware threads each, `per_node` on each NUMA node.
Machine make_machine(int cores, int per_node) {
  Machine machine;
  for (int i = 0; i < cores; ++i) machine.cores.push_back({i / per_node, {i, i + cores}});
  return machine;
}

int threads(int cores, JobShape shape, std::vector<Host> hosts = {{"a", {}}}) {
  return threads_per_device(cores, place(std::move(hosts), shape));
}

TEST(ThreadsPerDeviceTest, DividesTheCoresByTheMostStagesOfAnyHost) {
  EXPECT_EQ(threads(16, {.replicas = 4, .instances = 4}), 4);
  EXPECT_EQ(threads(16, {.replicas = 3, .instances = 3}), 5);
  EXPECT_EQ(threads(16, {.replicas = 4, .instances = 2, .devices_per_replica = 2}), 2);
  EXPECT_EQ(threads(16, {.replicas = 3, .instances = 3}, {{"a", {}}, {"b", {}}}), 8);
}

TEST(ThreadsPerDeviceTest, IsAtLeastOne) {
  EXPECT_EQ(threads(2, {.replicas = 8, .instances = 1, .devices_per_replica = 2}), 1);
}

TEST(ThreadsPerDeviceTest, DoesNotChangeWithTheNumberOfInstances) {
  for (int instances = 1; instances <= 8; ++instances) {
    EXPECT_EQ(threads(20, {.replicas = 8, .instances = instances}), 2);
  }
}

TEST(DevicesOnHostTest, IsWhatTheCoresAllowAndTheStagesNeed) {
  EXPECT_EQ(devices_on_host(16, 4, 2), 2);
  EXPECT_EQ(devices_on_host(16, 4, 9), 4);
  EXPECT_EQ(devices_on_host(2, 8, 3), 1);
}

TEST(MachineTest, CountsNoMoreCoresThanTheQuotaPaysFor) {
  auto machine = make_machine(8, 4);
  EXPECT_EQ(machine.usable_cores(), 8);
  machine.cpu_quota = 2.5;
  EXPECT_EQ(machine.usable_cores(), 2);
  machine.cpu_quota = 0.5;
  EXPECT_EQ(machine.usable_cores(), 1);
}

TEST(CoresOfDeviceTest, DividesTheCoresIntoNeighbours) {
  EXPECT_THAT(cores_of_device(0, 3, 16), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(cores_of_device(2, 3, 16), ElementsAre(10, 11, 12, 13, 14, 15));
}

TEST(BindTest, BindsInstancesToTheCoresOfTheirDevices) {
  for (const auto policy : {BindPolicy::Auto, BindPolicy::Core}) {
    EXPECT_THAT(bind(make_machine(8, 4), {{0}, {1}}, 2, policy),
                ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7)));
    EXPECT_THAT(bind(make_machine(8, 4), {{0, 1, 2}, {3}}, 4, policy),
                ElementsAre(ElementsAre(0, 1, 2, 3, 4, 5), ElementsAre(6, 7)));
  }
}

TEST(BindTest, LeavesInstancesFreeWhereTheyShareDevices) {
  EXPECT_THAT(bind(make_machine(2, 2), {{0, 1}, {0}}, 2, BindPolicy::Auto),
              ElementsAre(IsEmpty(), IsEmpty()));
  EXPECT_THAT(bind(make_machine(2, 2), {{0}, {1}}, 2, BindPolicy::None),
              ElementsAre(IsEmpty(), IsEmpty()));
}

TEST(BindTest, BindsInstancesThatShareDevicesWhereThatWasAskedFor) {
  EXPECT_THAT(bind(make_machine(2, 2), {{0, 1}, {0}}, 2, BindPolicy::Core),
              ElementsAre(ElementsAre(0, 1), ElementsAre(0)));
}

TEST(BindTest, RefusesFewerCoresThanInstancesWhereACoreEachWasAskedFor) {
  try {
    bind(make_machine(2, 2), {{0}, {1}, {0}}, 2, BindPolicy::Core);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "bind: 3 instances need a core each, but this host has 2");
  }
}

TEST(BindTest, TakesWholeNumaNodes) {
  EXPECT_THAT(bind(make_machine(8, 2), {{0}, {1}}, 2, BindPolicy::Numa),
              ElementsAre(ElementsAre(0, 1, 2, 3), ElementsAre(4, 5, 6, 7)));
  EXPECT_THAT(
      bind(make_machine(4, 2), {{0}, {1}, {2}, {3}}, 4, BindPolicy::Numa),
      ElementsAre(ElementsAre(0, 1), ElementsAre(0, 1), ElementsAre(2, 3), ElementsAre(2, 3)));
}

}  // namespace
}  // namespace lockstep::topology

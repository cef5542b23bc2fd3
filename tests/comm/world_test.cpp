#include "lockstep/comm/world.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"

namespace lockstep {
namespace {

using ::testing::ElementsAre;

World two_replicas_of_two_stages() {
  topology::Identity id;
  id.launched_by = topology::LaunchedBy::Lockstep;
  id.job_id = "c0ffee";
  id.instance = 1;
  id.num_instances = 2;
  id.local_instance = 1;
  id.num_local_instances = 2;
  id.num_replicas = 4;
  id.local_replicas = {2, 2};
  id.devices_per_replica = 2;
  id.device_ids = {4, 5, 6, 7};
  id.restart_count = 3;
  return World(id);
}

TEST(WorldTest, AnswersWhatTheLauncherTold) {
  const auto world = two_replicas_of_two_stages();
  EXPECT_TRUE(world.launched());
  EXPECT_EQ(world.job_id(), "c0ffee");
  EXPECT_EQ(world.instance(), 1);
  EXPECT_EQ(world.num_instances(), 2);
  EXPECT_EQ(world.local_instance(), 1);
  EXPECT_EQ(world.num_local_instances(), 2);
  EXPECT_EQ(world.num_replicas(), 4);
  EXPECT_EQ(world.num_local_replicas(), 2);
  EXPECT_EQ(world.first_replica(), 2);
  EXPECT_EQ(world.devices_per_replica(), 2);
  EXPECT_EQ(world.restart_count(), 3);
  EXPECT_THAT(world.device_ids(), ElementsAre(4, 5, 6, 7));
}

TEST(WorldTest, TellsTheDevicesOfOneReplica) {
  EXPECT_THAT(two_replicas_of_two_stages().device_ids(3), ElementsAre(6, 7));
}

TEST(WorldTest, RefusesAReplicaThatAnotherInstanceCarries) {
  try {
    two_replicas_of_two_stages().device_ids(1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "World::device_ids: instance 1 carries replicas 2 to 3, not 1");
  }
}

TEST(WorldTest, IsOneReplicaInOneInstanceWhenAlone) {
  const World world{topology::Identity{}};
  EXPECT_FALSE(world.launched());
  EXPECT_EQ(world.num_instances(), 1);
  EXPECT_EQ(world.num_replicas(), 1);
  EXPECT_THAT(world.device_ids(0), ElementsAre(0));
}

}  // namespace
}  // namespace lockstep

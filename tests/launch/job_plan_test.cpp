#include "lockstep/launch/place/job_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/launch/start/instance_environment.h"

namespace lockstep::launch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

topology::Machine four_cores() {
  topology::Machine machine;
  for (int i = 0; i < 4; ++i) machine.cores.push_back({0, {i, i + 4}});
  return machine;
}

JobPlan plan(const RunOptions& options) {
  return plan_job(options, {{"a", {}}}, four_cores());
}

TEST(JobPlanTest, DecidesEveryValueOfAnInstance) {
  RunOptions options;
  options.num_replicas = 4;
  options.num_instances = 2;
  const auto made = plan(options);
  EXPECT_EQ(made.threads_per_device, 1);
  const auto& second = made.instances.at(1);
  EXPECT_EQ(second.host, "a");
  EXPECT_EQ(second.identity.local_replicas, (topology::ReplicaRange{2, 2}));
  EXPECT_THAT(second.identity.device_ids, ElementsAre(2, 3));
  EXPECT_THAT(second.cores, ElementsAre(2, 3));
  EXPECT_THAT(second.cpus, ElementsAre(2, 3, 6, 7));
}

TEST(JobPlanTest, GivesEachInstanceAReplicaByDefault) {
  RunOptions options;
  options.num_instances = 3;
  EXPECT_EQ(plan(options).placement.shape.replicas, 3);
}

TEST(JobPlanTest, SharesDevicesWhereStagesAreMoreThanCores) {
  RunOptions options;
  options.num_replicas = 8;
  options.num_instances = 8;
  options.devices_per_replica = 2;
  const auto made = plan(options);
  EXPECT_THAT(made.instances.at(3).identity.device_ids, ElementsAre(2, 3));
  EXPECT_THAT(made.instances.at(3).cpus, IsEmpty());
}

TEST(JobPlanTest, TakesTheThreadsThatTheUserNames) {
  RunOptions options;
  options.threads_per_device = 3;
  options.num_replicas = 2;
  const auto made = plan(options);
  EXPECT_EQ(made.threads_per_device, 3);
  EXPECT_THAT(made.instances.at(0).identity.device_ids, ElementsAre(0, 0));
}

TEST(JobPlanTest, TakesThreadsFromTheSmallestOfTheHostsThatComputeAndBindsToTheCoresOfEach) {
  RunOptions options;
  options.num_instances = 2;
  auto small = four_cores();
  small.cores.erase(small.cores.begin(), small.cores.begin() + 2);
  auto tiny = four_cores();
  tiny.cores.resize(1);
  const std::vector machines{four_cores(), small, tiny};
  // The third host has no instance.
  const auto made = plan_job(options, {{"a", 1}, {"b", 1}, {"c", 1}}, machines);
  EXPECT_EQ(made.threads_per_device, 2);
  EXPECT_EQ(made.instances.at(0).usable_cores, 4);
  EXPECT_EQ(made.instances.at(1).usable_cores, 2);
  EXPECT_THAT(made.instances.at(0).cpus, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(made.instances.at(1).cpus, ElementsAre(2, 3, 6, 7));
}

struct BadOption {
  RunOptions options;
  const char* complaint;
  friend std::ostream& operator<<(std::ostream& out, const BadOption& bad) {
    return out << bad.complaint;
  }
};

RunOptions with(void (*change)(RunOptions&)) {
  RunOptions options;
  change(options);
  return options;
}

class BadOptionTest : public ::testing::TestWithParam<BadOption> {};

TEST_P(BadOptionTest, IsRefusedWithItsValue) {
  try {
    plan(GetParam().options);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Options);
    EXPECT_THAT(error.what(), HasSubstr(GetParam().complaint));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BadOptionTest,
    ::testing::Values(BadOption{with([](RunOptions& o) { o.threads_per_device = 0; }),
                                "--threads-per-device is 0, expected at least 1"},
                      BadOption{with([](RunOptions& o) { o.max_restarts = -1; }),
                                "--max-restarts is -1, expected at least 0"},
                      BadOption{with([](RunOptions& o) { o.stall_timeout = events::Seconds(-3); }),
                                "--stall-timeout is -3, expected 0 to 10000000 seconds"},
                      BadOption{with([](RunOptions& o) { o.grace_period = events::Seconds(1e30); }),
                                "--grace-period is 1e+30, expected 0 to 10000000 seconds"},
                      BadOption{with([](RunOptions& o) { o.environment = {"NOVALUE"}; }),
                                "--env is 'NOVALUE', expected NAME=value"},
                      BadOption{with([](RunOptions& o) { o.environment = {"=x"}; }),
                                "--env is '=x'"},
                      BadOption{with([](RunOptions& o) { o.environment = {"RANK=3"}; }),
                                "--env RANK: the launcher sets this"}));

topology::Environment environment_of(const RunOptions& options,
                                     std::map<std::string, std::string> own = {}) {
  const auto made = plan(options);
  const JobContext context{
      "c0ffee", "/run/c0ffee", {"127.0.0.1", 4711}, topology::Environment(std::move(own))};
  return instance_environment(made, made.instances.at(0), context, 2);
}

TEST(InstanceEnvironmentTest, HoldsTheContractAndTheUsersVariables) {
  RunOptions options;
  options.environment = {"GREETING=a=b"};
  options.cache_path = "/tmp/cache";
  const auto environment = environment_of(options, {{"HOME", "/root"}, {"RANK", "77"}});
  EXPECT_EQ(environment.get("HOME"), "/root");
  EXPECT_EQ(environment.get("GREETING"), "a=b");
  EXPECT_EQ(environment.get("RANK"), "0");
  EXPECT_EQ(environment.get("LOCKSTEP_RESTART_COUNT"), "2");
  EXPECT_EQ(environment.get("LOCKSTEP_CACHE_PATH"), "/tmp/cache");
  const auto id = topology::read_identity(environment);
  EXPECT_EQ(id.job_id, "c0ffee");
  EXPECT_EQ(id.threads_per_device, 4);
}

TEST(InstanceEnvironmentTest, DecidesTheThreadsAnewInAJobWithinAJob) {
  EXPECT_EQ(environment_of({}, {{"LOCKSTEP_THREADS_PER_DEVICE", "2"}, {"OMP_NUM_THREADS", "2"}})
                .get("OMP_NUM_THREADS"),
            "4");
}

TEST(InstanceEnvironmentTest, TellsOpenMpHowManyThreadsAndHowToWait) {
  RunOptions options;
  EXPECT_EQ(environment_of(options).get("OMP_NUM_THREADS"), "4");
  EXPECT_EQ(environment_of(options).get("OMP_WAIT_POLICY"), std::nullopt);
  EXPECT_EQ(environment_of(options, {{"OMP_NUM_THREADS", "5"}}).get("OMP_WAIT_POLICY"), "passive");
  options.num_replicas = 5;
  EXPECT_EQ(environment_of(options).get("OMP_NUM_THREADS"), "1");
  EXPECT_EQ(environment_of(options).get("OMP_WAIT_POLICY"), "passive");
  EXPECT_EQ(environment_of(options, {{"OMP_NUM_THREADS", "9"}, {"OMP_WAIT_POLICY", "active"}})
                .get("OMP_NUM_THREADS"),
            "9");
}

}  // namespace
}  // namespace lockstep::launch

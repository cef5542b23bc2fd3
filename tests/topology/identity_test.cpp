#include "lockstep/topology/identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/base/error.h"
#include "lockstep/topology/environment.h"

namespace lockstep::topology {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Variables = std::map<std::string, std::string>;

/// Instance 1 of 3 on one host, with replicas 3 to 5 of 8, of two stages each.
Identity example() {
  Identity id;
  id.launched_by = LaunchedBy::Lockstep;
  id.job_id = "c0ffee";
  id.run_dir = "/run/user/1000/lockstep/c0ffee";
  id.session = "c0ffee-4";
  id.instance = 1;
  id.num_instances = 3;
  id.local_instance = 1;
  id.num_local_instances = 3;
  id.num_replicas = 8;
  id.local_replicas = {3, 3};
  id.devices_per_replica = 2;
  id.device_ids = {0, 1, 2, 3, 0, 1};
  id.threads_per_device = 2;
  id.restart_count = 4;
  id.cache_path = "/tmp/cache";
  id.stall_timeout = std::chrono::duration<double>(1.5);
  id.transport = TransportKind::Shm;
  return id;
}

Environment example_environment() {
  Environment environment;
  write_identity(environment, example(), {"127.0.0.1", 4711});
  return environment;
}

TEST(IdentityTest, IsReadBackAsItWasWritten) {
  EXPECT_EQ(read_identity(example_environment()), example());
}

/// Instance 1 of 3 is the second of two on the first of two hosts.
Identity example_on_hosts() {
  auto id = example();
  id.transport = TransportKind::Tcp;
  id.num_local_instances = 2;
  id.hosts = {{"a", "10.0.0.1", 4711, 2}, {"b", "fd00::2", 4712, 1}};
  id.listener = 9;
  return id;
}

TEST(IdentityTest, OnSeveralHostsIsReadBackAsItWasWritten) {
  Environment environment;
  write_identity(environment, example_on_hosts(), {"10.0.0.1", 4711});
  EXPECT_EQ(environment.get("LOCKSTEP_HOSTS"), "a,10.0.0.1,4711,2;b,fd00::2,4712,1");
  EXPECT_EQ(read_identity(environment), example_on_hosts());
}

TEST(IdentityTest, RefusesHostsThatDoNotFitItsPlace) {
  Environment environment;
  write_identity(environment, example_on_hosts(), {"10.0.0.1", 4711});
  for (const auto* hosts : {"a,10.0.0.1,4711,1;b,10.0.0.2,4711,2", "a,10.0.0.1,4711,2"}) {
    environment.set("LOCKSTEP_HOSTS", hosts);
    EXPECT_THROW(read_identity(environment), Error) << hosts;
  }
}

TEST(IdentityTest, IsAloneWithoutAnyVariable) {
  const auto id = read_identity(Environment{});
  EXPECT_EQ(id, Identity{});
  EXPECT_EQ(id.launched_by, LaunchedBy::Nobody);
}

TEST(IdentityTest, HasAPlaceToMeetUnderEachLauncher) {
  const auto session = [](const Variables& variables) {
    return read_identity(Environment(variables)).session;
  };
  EXPECT_EQ(session({{"RANK", "0"}, {"WORLD_SIZE", "2"}}), "");
  Variables torchrun{
      {"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "29500"}};
  const auto first = session(torchrun);
  EXPECT_EQ(first, "29500.a...");
  torchrun["TORCHELASTIC_RESTART_COUNT"] = "1";
  EXPECT_NE(session(torchrun), first) << "a job that is started again meets anew";
  EXPECT_EQ(session({{"OMPI_COMM_WORLD_RANK", "0"},
                     {"OMPI_COMM_WORLD_SIZE", "1"},
                     {"OMPI_COMM_WORLD_LOCAL_RANK", "0"},
                     {"OMPI_COMM_WORLD_LOCAL_SIZE", "1"},
                     {"PMIX_NAMESPACE", "77"}}),
            "77..");
}

TEST(IdentityTest, TakesSettingsFromUsersOfOtherLaunchers) {
  const auto id = read_identity(Environment(Variables{{"RANK", "0"},
                                                      {"WORLD_SIZE", "1"},
                                                      {"LOCKSTEP_COMMAND", "mine"},
                                                      {"LOCKSTEP_STALL_TIMEOUT", "5"},
                                                      {"LOCKSTEP_TRANSPORT", "local"}}));
  EXPECT_EQ(id.command, "mine");
  EXPECT_EQ(id.stall_timeout.count(), 5.0);
  EXPECT_EQ(id.transport, TransportKind::Local);
}

TEST(IdentityTest, WritesTorchrunsVariablesToo) {
  const auto environment = example_environment();
  EXPECT_EQ(environment.get("RANK"), "1");
  EXPECT_EQ(environment.get("WORLD_SIZE"), "3");
  EXPECT_EQ(environment.get("LOCAL_RANK"), "1");
  EXPECT_EQ(environment.get("LOCAL_WORLD_SIZE"), "3");
  EXPECT_EQ(environment.get("MASTER_ADDR"), "127.0.0.1");
  EXPECT_EQ(environment.get("MASTER_PORT"), "4711");
}

TEST(IdentityTest, PrefersItsOwnVariablesToThoseOfOthers) {
  auto environment = example_environment();
  environment.set("SLURM_PROCID", "77");
  environment.set("SLURM_STEP_ID", "0");
  environment.set("SLURM_STEP_NUM_TASKS", "88");
  EXPECT_EQ(read_identity(environment).instance, 1);
}

TEST(IdentityTest, ReadsTorchrunsVariables) {
  const auto id = read_identity(Environment(Variables{
      {"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}}));
  EXPECT_EQ(id.launched_by, LaunchedBy::Torchrun);
  EXPECT_EQ(id.instance, 5);
  EXPECT_EQ(id.num_replicas, 8);
  EXPECT_EQ(id.local_instance, 1);
  EXPECT_EQ(id.num_local_instances, 4);
  EXPECT_EQ(id.local_replicas, (ReplicaRange{5, 1}));
  EXPECT_THAT(id.device_ids, ElementsAre(1));
}

TEST(IdentityTest, TakesOneHostForGrantedWhereOnlyRankAndSizeAreSet) {
  const auto id = read_identity(Environment(Variables{{"RANK", "2"}, {"WORLD_SIZE", "4"}}));
  EXPECT_EQ(id.local_instance, 2);
  EXPECT_EQ(id.num_local_instances, 4);
}

TEST(IdentityTest, ReadsOpenMpisVariables) {
  const auto id = read_identity(Environment(Variables{{"OMPI_COMM_WORLD_RANK", "3"},
                                                      {"OMPI_COMM_WORLD_SIZE", "4"},
                                                      {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                                                      {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}));
  EXPECT_EQ(id.launched_by, LaunchedBy::OpenMpi);
  EXPECT_EQ(id.instance, 3);
  EXPECT_EQ(id.local_instance, 1);
  EXPECT_EQ(id.num_local_instances, 2);
}

Variables slurm_task() {
  return {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "7"},
          {"SLURM_PROCID", "6"},  {"SLURM_STEP_TASKS_PER_NODE", "2(x3),1"},
          {"SLURM_LOCALID", "0"}, {"SLURM_NODEID", "3"}};
}

TEST(IdentityTest, ReadsSlurmsVariables) {
  auto variables = slurm_task();
  auto id = read_identity(Environment(variables));
  EXPECT_EQ(id.launched_by, LaunchedBy::Slurm);
  EXPECT_EQ(id.instance, 6);
  EXPECT_EQ(id.num_instances, 7);
  EXPECT_EQ(id.num_local_instances, 1);
  variables["SLURM_PROCID"] = "5";
  variables["SLURM_LOCALID"] = "1";
  variables["SLURM_NODEID"] = "2";
  EXPECT_EQ(read_identity(Environment(variables)).num_local_instances, 2);
}

TEST(IdentityTest, ReadsTheNodesOfASlurmStep) {
  auto variables = slurm_task();
  variables["SLURM_STEP_NODELIST"] = "n[1-3],m";
  const auto id = read_identity(Environment(variables));
  ASSERT_EQ(id.hosts.size(), 4U);
  EXPECT_EQ(id.hosts[2], (JobHost{"n3", "", 0, 2}));
  EXPECT_EQ(id.hosts[3], (JobHost{"m", "", 0, 1}));
  EXPECT_EQ(id.host, 3);
  // As `srun --distribution=cyclic` deals tasks out.
  variables["SLURM_PROCID"] = "3";
  try {
    read_identity(Environment(variables));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("expected the tasks of a node to be neighbours"));
    EXPECT_EQ(error.hint(), "srun --distribution=block");
  }
}

TEST(IdentityTest, TakesABatchScriptForAProcessAlone) {
  EXPECT_EQ(read_identity(Environment(
                Variables{{"SLURM_JOB_ID", "12"}, {"SLURM_NTASKS", "8"}, {"SLURM_PROCID", "0"}})),
            Identity{});
  auto interactive = slurm_task();
  interactive["SLURM_STEP_ID"] = "4294967290";
  EXPECT_EQ(read_identity(Environment(interactive)), Identity{});
}

struct Change {
  Variables start;
  const char* name;
  const char* value;  ///< null: removed
  const char* complaint;
  friend std::ostream& operator<<(std::ostream& out, const Change& change) {
    return out << change.name << '=' << (change.value != nullptr ? change.value : "(unset)");
  }
};

class ContradictionTest : public ::testing::TestWithParam<Change> {};

TEST_P(ContradictionTest, IsAnErrorThatNamesVariableAndValue) {
  auto environment =
      GetParam().start.empty() ? example_environment() : Environment(GetParam().start);
  if (GetParam().value == nullptr) {
    environment.remove(GetParam().name);
  } else {
    environment.set(GetParam().name, GetParam().value);
  }
  try {
    read_identity(environment);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Options);
    EXPECT_THAT(error.what(), HasSubstr(GetParam().name));
    EXPECT_THAT(error.what(), HasSubstr(GetParam().complaint));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Lockstep, ContradictionTest,
    ::testing::Values(
        Change{{}, "LOCKSTEP_INSTANCE_INDEX", "3", "is '3', expected a number from 0 to 2"},
        Change{{}, "LOCKSTEP_INSTANCE_INDEX", "one", "is 'one', expected a number"},
        Change{{}, "LOCKSTEP_INSTANCE_INDEX", nullptr, "is not set, though LOCKSTEP_NUM_INSTANCES"},
        Change{{}, "LOCKSTEP_NUM_INSTANCES", nullptr, "is not set, though LOCKSTEP_INSTANCE_INDEX"},
        Change{{}, "LOCKSTEP_NUM_INSTANCES", "0", "is '0', expected a number of at least 1"},
        Change{{}, "LOCKSTEP_NUM_LOCAL_INSTANCES", "4", "is '4', expected a number from 1 to 3"},
        Change{{}, "LOCKSTEP_LOCAL_INSTANCE_INDEX", "-1", "is '-1', expected a number from 0 to 2"},
        Change{{}, "LOCKSTEP_NUM_REPLICAS", "2", "is '2', expected a number of at least 3"},
        Change{{}, "LOCKSTEP_REPLICA_OFFSET", "2", "is '2', expected 3: instance 1 of 3 with 8"},
        Change{
            {}, "LOCKSTEP_NUM_LOCAL_REPLICAS", "2", "is '2', expected 3: instance 1 of 3 with 8"},
        Change{{}, "LOCKSTEP_DEVICES_PER_REPLICA", "0", "is '0', expected a number of at least 1"},
        Change{{}, "LOCKSTEP_DEVICE_IDS", "0,1", "is '0,1', expected 6 numbers"},
        Change{{}, "LOCKSTEP_DEVICE_IDS", "0,x", "is '0,x', expected numbers with commas between"},
        Change{{}, "LOCKSTEP_THREADS_PER_DEVICE", "", "is '', expected a number of at least 1"},
        Change{{}, "LOCKSTEP_RESTART_COUNT", "1e3", "is '1e3', expected a number"},
        Change{{}, "LOCKSTEP_STALL_TIMEOUT", "soon", "is 'soon', expected a number of seconds"},
        Change{{}, "LOCKSTEP_STALL_TIMEOUT", "-1", "is '-1', expected a number of seconds"},
        Change{{}, "LOCKSTEP_STALL_TIMEOUT", "nan", "is 'nan', expected a number of seconds"},
        Change{{}, "LOCKSTEP_TRANSPORT", "gloo", "is 'gloo', expected auto, local, shm, tcp"},
        Change{
            {}, "LOCKSTEP_HOSTS", "a,10.0.0.1,4711", "expected hosts such as 'a,10.0.0.1,4711,2'"},
        Change{{}, "LOCKSTEP_HOSTS", "a,10.0.0.1,99999,3", "expected hosts such as"},
        Change{{}, "LOCKSTEP_HOSTS", "a,10.0.0.1,4711,0", "expected hosts such as"},
        Change{{}, "LOCKSTEP_LISTENER", "-1", "is '-1', expected a number of at least 0"},
        Change{{},
               "LOCKSTEP_LOCAL_INSTANCE_INDEX",
               "2",
               "is '2', expected a place among the 3 of this host that fits instance 1 of 3"},
        Change{{}, "LOCKSTEP_LOCAL_INSTANCE_INDEX", "0", "is '0', expected a place among the 3"},
        Change{{}, "RANK", "2", "is '2', expected 1: the LOCKSTEP variables say so"},
        Change{{}, "WORLD_SIZE", "8", "is '8', expected 3: the LOCKSTEP variables say so"},
        Change{{}, "LOCAL_RANK", "0", "is '0', expected 1: the LOCKSTEP variables say so"},
        Change{{}, "OMPI_COMM_WORLD_RANK", "0", "is '0', expected 1: the LOCKSTEP variables"},
        Change{{}, "LOCKSTEP_JOB_ID", nullptr, "is not set"},
        Change{{}, "LOCKSTEP_RUN_DIR", nullptr, "is not set"}));

INSTANTIATE_TEST_SUITE_P(
    Others, ContradictionTest,
    ::testing::Values(
        Change{{{"WORLD_SIZE", "2"}}, "RANK", "2", "is '2', expected a number from 0 to 1"},
        Change{{{"WORLD_SIZE", "2"}}, "RANK", nullptr, "is not set, though WORLD_SIZE is"},
        Change{{{"RANK", "0"}}, "WORLD_SIZE", nullptr, "is not set, though RANK is"},
        Change{{{"RANK", "0"}, {"WORLD_SIZE", "2"}}, "LOCAL_WORLD_SIZE", "3", "is '3'"},
        Change{{{"RANK", "0"}, {"WORLD_SIZE", "2"}}, "LOCAL_RANK", "2", "is '2'"},
        Change{{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_WORLD_SIZE", "2"}},
               "LOCAL_RANK",
               "1",
               "is '1', expected a place among the 2 of this host that fits instance 0 of 2"},
        Change{{{"OMPI_COMM_WORLD_RANK", "0"}}, "OMPI_COMM_WORLD_SIZE", nullptr, "is not set"},
        Change{{{"OMPI_COMM_WORLD_SIZE", "4"}}, "OMPI_COMM_WORLD_RANK", nullptr, "is not set"},
        Change{{{"OMPI_COMM_WORLD_SIZE", "1"}}, "OMPI_COMM_WORLD_RANK", "1", "is '1'"},
        Change{slurm_task(), "SLURM_PROCID", "7", "is '7', expected a number from 0 to 6"},
        Change{slurm_task(), "SLURM_NODEID", nullptr, "is not set, though SLURM_PROCID is"},
        Change{slurm_task(), "SLURM_LOCALID", "1", "is '1', expected a number from 0 to 0"},
        Change{slurm_task(), "SLURM_STEP_TASKS_PER_NODE", "2(x", "expected a list such as"},
        Change{slurm_task(), "SLURM_STEP_TASKS_PER_NODE", "2", "expected an entry for the node"}));

}  // namespace
}  // namespace lockstep::topology

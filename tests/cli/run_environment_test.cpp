#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "lockstep/launch/discover/machine_discovery.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// The variables that `env` shows in the first instance.
std::map<std::string, std::string> variables_of(std::vector<std::string> options,
                                                SubprocessOptions test = {}) {
  options.insert(options.begin(),
                 {"run", "--only-output-from-instance", "0", "--tag-output", "never"});
  options.emplace_back("env");
  std::istringstream lines(lockstep(options, std::move(test)).out);
  std::map<std::string, std::string> variables;
  for (std::string line; std::getline(lines, line);) {
    variables[line.substr(0, line.find('='))] = line.substr(line.find('=') + 1);
  }
  return variables;
}

TEST(RunEnvironmentTest, TellsEveryInstanceItsPlace) {
  const auto result = lockstep({"run", "--num-replicas", "8", "--num-instances", "3",
                                "--devices-per-replica", "2", HELLO_BINARY});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const auto* line : {"[0] hello from instance 0 of 3: replicas 0 to 2 of 8, devices ",
                           "[1] hello from instance 1 of 3: replicas 3 to 5 of 8, devices ",
                           "[2] hello from instance 2 of 3: replicas 6 to 7 of 8, devices "}) {
    EXPECT_THAT(result.out, HasSubstr(line));
  }
}

TEST(RunEnvironmentTest, SetsEveryVariableOfTheContract) {
  auto variables = variables_of({"--num-instances", "2", "--num-replicas", "4", "--stall-timeout",
                                 "7.5", "--cache-path", "/some/cache", "--transport", "shm"});
  EXPECT_EQ(variables["LOCKSTEP_JOB_ID"].size(), 12U);
  EXPECT_THAT(variables["LOCKSTEP_RUN_DIR"], HasSubstr(variables["LOCKSTEP_JOB_ID"]));
  EXPECT_EQ(variables["LOCKSTEP_INSTANCE_INDEX"], "0");
  EXPECT_EQ(variables["LOCKSTEP_NUM_INSTANCES"], "2");
  EXPECT_EQ(variables["LOCKSTEP_LOCAL_INSTANCE_INDEX"], "0");
  EXPECT_EQ(variables["LOCKSTEP_NUM_LOCAL_INSTANCES"], "2");
  EXPECT_EQ(variables["LOCKSTEP_NUM_REPLICAS"], "4");
  EXPECT_EQ(variables["LOCKSTEP_NUM_LOCAL_REPLICAS"], "2");
  EXPECT_EQ(variables["LOCKSTEP_REPLICA_OFFSET"], "0");
  EXPECT_EQ(variables["LOCKSTEP_DEVICES_PER_REPLICA"], "1");
  EXPECT_EQ(variables["LOCKSTEP_RESTART_COUNT"], "0");
  EXPECT_EQ(variables["LOCKSTEP_STALL_TIMEOUT"], "7.5");
  EXPECT_EQ(variables["LOCKSTEP_TRANSPORT"], "shm");
  EXPECT_EQ(variables["LOCKSTEP_CACHE_PATH"], "/some/cache");
  EXPECT_EQ(variables["LOCKSTEP_COMMAND"],
            "lockstep run --only-output-from-instance 0 --tag-output never --num-instances 2 "
            "--num-replicas 4 --stall-timeout 7.5 --cache-path /some/cache --transport shm env");
  EXPECT_EQ(variables["RANK"], "0");
  EXPECT_EQ(variables["WORLD_SIZE"], "2");
  EXPECT_EQ(variables["LOCAL_RANK"], "0");
  EXPECT_EQ(variables["LOCAL_WORLD_SIZE"], "2");
  EXPECT_EQ(variables["MASTER_ADDR"], "127.0.0.1");
  EXPECT_GT(std::stoi(variables["MASTER_PORT"]), 1023);
}

TEST(RunEnvironmentTest, DecidesTheThreadsFromReplicasNotFromInstances) {
  const int cores = launch::discover_machine().usable_cores();
  auto alone = variables_of({});
  EXPECT_EQ(alone["LOCKSTEP_THREADS_PER_DEVICE"], std::to_string(cores));
  EXPECT_EQ(alone["OMP_NUM_THREADS"], std::to_string(cores));
  EXPECT_FALSE(alone.contains("OMP_WAIT_POLICY"));
  for (const auto* instances : {"1", "2", "4"}) {
    auto many = variables_of(
        {"--num-replicas", std::to_string(2 * cores + 2), "--num-instances", instances});
    EXPECT_EQ(many["LOCKSTEP_THREADS_PER_DEVICE"], "1");
    EXPECT_EQ(many["OMP_WAIT_POLICY"], "passive");
  }
}

TEST(RunEnvironmentTest, KeepsTheUsersOwnThreadCount) {
  auto variables = variables_of({}, {.environment = {{"OMP_NUM_THREADS", "3"}}});
  EXPECT_EQ(variables["OMP_NUM_THREADS"], "3");
}

TEST(RunEnvironmentTest, HandsStandardInputToInstanceZeroOnly) {
  const auto result = lockstep({"run", "--num-instances", "2", "cat"}, {.input = "for zero\n"});
  EXPECT_EQ(result.out, "[0] for zero\n");
}

TEST(RunEnvironmentTest, BindsInstancesToDifferentCores) {
  const auto cores = launch::discover_machine().cores.size();
  if (cores < 2) GTEST_SKIP() << "one core cannot be divided";
  const auto result = lockstep(
      {"run", "--num-instances", "2", "sh", "-c", "grep Cpus_allowed_list /proc/self/status"});
  const auto zero = result.out.find("[0] Cpus_allowed_list:");
  const auto one = result.out.find("[1] Cpus_allowed_list:");
  ASSERT_NE(zero, std::string::npos);
  ASSERT_NE(one, std::string::npos);
  EXPECT_NE(result.out.substr(zero + 4, result.out.find('\n', zero) - zero - 4),
            result.out.substr(one + 4, result.out.find('\n', one) - one - 4));
}

TEST(RunEnvironmentTest, LeavesNothingBehindInTheTemporaryFolder) {
  const ScratchFolder scratch;
  const SubprocessOptions test{
      .environment = {{"TMPDIR", scratch.path()}, {"XDG_RUNTIME_DIR", ""}}};
  EXPECT_EQ(
      lockstep({"run", "--num-instances", "2", "sh", "-c", "touch $LOCKSTEP_RUN_DIR/file$RANK"},
               test)
          .exit_code,
      0);
  EXPECT_TRUE(scratch.is_empty());
  EXPECT_NE(lockstep({"run", "--num-instances", "2", "false"}, test).exit_code, 0);
  EXPECT_TRUE(scratch.is_empty());
}

TEST(RunEnvironmentTest, PutsItsFolderInAnAbsolutePlaceWhateverTmpdirSays) {
  for (const auto* folder : {"", ".", "/tmp"}) {
    auto variables =
        variables_of({}, {.environment = {{"TMPDIR", folder}, {"XDG_RUNTIME_DIR", ""}}});
    EXPECT_THAT(variables["LOCKSTEP_RUN_DIR"], ::testing::MatchesRegex("/.+/lockstep-[0-9]+/.+"));
  }
}

TEST(HelloTest, RunsAloneAndUnderTorchrunsVariables) {
  EXPECT_EQ(run({HELLO_BINARY}).out,
            "hello from instance 0 of 1: replicas 0 to 0 of 1, devices 0\n");
  EXPECT_EQ(run({HELLO_BINARY}, {.environment = {{"RANK", "2"}, {"WORLD_SIZE", "4"}}}).out,
            "hello from instance 2 of 4: replicas 2 to 2 of 4, devices 2\n");
}

TEST(HelloTest, EndsWithAClearMessageWhereTheEnvironmentContradictsItself) {
  const auto result = run({HELLO_BINARY}, {.environment = {{"RANK", "4"}, {"WORLD_SIZE", "4"}}});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("RANK is '4', expected a number from 0 to 3"));
}

TEST(HelloTest, RefusesToBeTwoThingsAtOnce) {
  const auto result = lockstep({"run", "env", "RANK=1", "WORLD_SIZE=2", HELLO_BINARY});
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, HasSubstr("RANK is '1', expected 0: the LOCKSTEP variables say so"));
}

TEST(HelloTest, RunsInAJobWithinAJob) {
  const auto result =
      lockstep({"run", LOCKSTEP_BINARY, "run", "--num-instances", "2", HELLO_BINARY});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("[1] hello from instance 1 of 2"));
}

TEST(HelloTest, RunsUnderMpirun) {
  if (run({"sh", "-c", "command -v mpirun"}).exit_code != 0) GTEST_SKIP() << "no mpirun here";
  const auto result =
      run({"mpirun", "--allow-run-as-root", "--oversubscribe", "-np", "2", HELLO_BINARY});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("hello from instance 1 of 2: replicas 1 to 1 of 2, devices 1\n"));
}

}  // namespace
}  // namespace lockstep::testing

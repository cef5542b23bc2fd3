#include "lockstep/launch/engine/engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lockstep/comm/mpi/join.h"
#include "lockstep/launch/engine/srun_engine.h"
#include "lockstep/launch/engine/transport_choice.h"
#include "tests/support/errors.h"

namespace lockstep::launch {
namespace {

using ::testing::ElementsAre;
using topology::Environment;
using Variables = std::map<std::string, std::string>;

EngineOptions two_hosts() {
  return {.hosts = {"a", "b"}, .is_this_host = {false, false}, .lockstep = "/opt/lockstep"};
}

std::string lines(const Engine& engine, const std::vector<int>& hosts) {
  std::string text;
  for (const auto& command : engine.commands(hosts)) {
    std::vector<std::string> words;
    for (const auto& word : command.arguments) words.push_back(quote_word(word));
    text += fmt::format("{} [{}]\n", fmt::join(words, " "), fmt::join(command.hosts, ","));
  }
  return text;
}

TEST(EngineTest, SshTakesOneConnectionPerHostAndNeverAsks) {
  const auto engine = make_engine(EngineKind::Ssh, two_hosts());
  EXPECT_EQ(lines(*engine, {0, 1}),
            "ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o "
            "ServerAliveCountMax=13 a 'exec /opt/lockstep agent' [0]\n"
            "ssh -T -o BatchMode=yes -o ConnectTimeout=10 -o ServerAliveInterval=5 -o "
            "ServerAliveCountMax=13 b 'exec /opt/lockstep agent' [1]\n");
  EXPECT_FALSE(engine->starts_all_at_once());
  EXPECT_TRUE(engine->commands({0}).front().carries_channel);
}

TEST(EngineTest, SshGivesUpNoHostBeforeTheLauncherDoes) {
  auto options = two_hosts();
  options.stall_timeout = std::chrono::seconds(601);
  EXPECT_THAT(make_engine(EngineKind::Ssh, options)->commands({1}).front().arguments,
              ::testing::Contains("ServerAliveCountMax=122"));
  options.stall_timeout = std::chrono::seconds(0);
  EXPECT_THAT(make_engine(EngineKind::Ssh, options)->commands({1}).front().arguments,
              ::testing::Contains("ServerAliveCountMax=20000001"));
}

TEST(EngineTest, ThisMachineNeedsNoConnection) {
  auto options = two_hosts();
  options.is_this_host = {true, false};
  options.lockstep = "/with space/lockstep";
  const auto made = make_engine(EngineKind::Ssh, options)->commands({0, 1});
  EXPECT_THAT(made[0].arguments, ElementsAre("/with space/lockstep", "agent"));
  EXPECT_TRUE(made[0].is_agent);
  EXPECT_FALSE(made[1].is_agent);
  EXPECT_EQ(made[1].arguments.back(), "exec '/with space/lockstep' agent");
}

TEST(EngineTest, MpirunStartsOneAgentPerHostAndHandsOnTheSecretByName) {
  auto options = two_hosts();
  options.is_root = true;
  options.mpi_global_args = {"--mca", "btl", "tcp,self"};
  options.mpi_local_args = {"-x", "A B"};
  const auto engine = make_engine(EngineKind::Mpirun, options);
  EXPECT_EQ(lines(*engine, {0, 1}),
            "mpirun --host a,b -np 2 --map-by ppr:1:node --bind-to none --allow-run-as-root --mca "
            "plm_rsh_args '-o BatchMode=yes -o ConnectTimeout=10' -x LOCKSTEP_AGENT_LAUNCHER -x "
            "LOCKSTEP_AGENT_SECRET --mca btl tcp,self -x 'A B' /opt/lockstep agent [0,1]\n");
  EXPECT_TRUE(engine->starts_all_at_once());
  EXPECT_FALSE(engine->commands({0, 1}).front().carries_channel);
}

TEST(EngineTest, MpirunUsesSshAsTheUserSaysWhereTheUserSaysIt) {
  auto options = two_hosts();
  options.mpi_global_args = {"--mca", "plm_rsh_args", "-p 2222"};
  EXPECT_EQ(lines(*make_engine(EngineKind::Mpirun, options), {0, 1}).find("BatchMode"),
            std::string::npos);
  auto others = two_hosts();
  others.mpi_ssh_is_set = true;
  EXPECT_EQ(lines(*make_engine(EngineKind::Mpirun, others), {0, 1}).find("BatchMode"),
            std::string::npos);
}

TEST(EngineTest, MpirunIsToldToRunAsRootByRootAlone) {
  EXPECT_EQ(lines(*make_engine(EngineKind::Mpirun, two_hosts()), {0, 1}).find("root"),
            std::string::npos);
}

TEST(EngineTest, SrunStartsOneAgentPerNodeOfTheAllocation) {
  const auto engine = make_engine(EngineKind::Srun, two_hosts());
  EXPECT_EQ(lines(*engine, {0, 1}),
            "srun --nodes=2 --ntasks=2 --ntasks-per-node=1 --nodelist=a,b --export=ALL "
            "--kill-on-bad-exit=0 --mpi=none --overlap --cpu-bind=none --input=none /opt/lockstep "
            "agent [0,1]\n");
}

TEST(EngineTest, AutoTakesWhatThereIs) {
  const Environment bare(Variables{{"PATH", "/nowhere"}});
  const Environment allocated(
      Variables{{"PATH", "/nowhere"}, {"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NODELIST", "n[1-2]"}});
  EXPECT_EQ(choose_engine(EngineKind::Auto, true, allocated), EngineKind::Local);
  EXPECT_EQ(choose_engine(EngineKind::Auto, false, allocated), EngineKind::Srun);
  EXPECT_EQ(choose_engine(EngineKind::Auto, false, bare), EngineKind::Ssh);
  EXPECT_EQ(choose_engine(EngineKind::Mpirun, true, bare), EngineKind::Mpirun);
}

TEST(EngineTest, ATaskOfAStepHasNoAllocationToItself) {
  const Environment task(Variables{{"SLURM_JOB_ID", "7"},
                                   {"SLURM_JOB_NODELIST", "n1"},
                                   {"SLURM_STEP_ID", "0"},
                                   {"SLURM_STEP_NUM_TASKS", "1"},
                                   {"SLURM_PROCID", "0"},
                                   {"SLURM_NODEID", "0"},
                                   {"SLURM_LOCALID", "0"},
                                   {"SLURM_STEP_TASKS_PER_NODE", "1"}});
  EXPECT_FALSE(is_in_allocation(task));
}

TEST(EngineTest, ReadsTheNodesOfAnAllocation) {
  Environment allocation(Variables{{"SLURM_JOB_NODELIST", "n[1-3],login"}});
  EXPECT_THAT(hosts_of_allocation(allocation),
              ElementsAre(topology::Host{"n1", {}}, topology::Host{"n2", {}},
                          topology::Host{"n3", {}}, topology::Host{"login", {}}));
  allocation.set("SLURM_TASKS_PER_NODE", "2(x3),1");
  EXPECT_EQ(hosts_of_allocation(allocation).front().slots, std::nullopt);
  allocation.set("SLURM_NTASKS", "7");
  EXPECT_THAT(hosts_of_allocation(allocation),
              ElementsAre(topology::Host{"n1", 2}, topology::Host{"n2", 2}, topology::Host{"n3", 2},
                          topology::Host{"login", 1}));
}

TEST(EngineTest, RefusesAnAllocationThatItCannotRead) {
  for (const auto* tasks : {"", "2(x", "2(x3", "x", "0", "2(x0)"}) {
    const Environment allocation(Variables{
        {"SLURM_JOB_NODELIST", "n1"}, {"SLURM_TASKS_PER_NODE", tasks}, {"SLURM_NTASKS", "2"}});
    testing::expect_error([&] { hosts_of_allocation(allocation); }, ErrorKind::Options,
                          "SLURM_TASKS_PER_NODE is");
  }
}

TEST(EngineTest, SplitsWordsAsAShellDoes) {
  EXPECT_THAT(split_words("  --mca btl 'tcp, self'\t-x \"A \\\"B\\\"\" c\\ d '' ", "o"),
              ElementsAre("--mca", "btl", "tcp, self", "-x", "A \"B\"", "c d", ""));
  EXPECT_THAT(split_words("", "o"), ElementsAre());
  testing::expect_error([] { split_words("'x", "run: --mpi-local-args"); }, ErrorKind::Options,
                        "run: --mpi-local-args is ''x': expected a closing ', found none\n"
                        "close the quote");
}

TEST(EngineTest, QuotesWhatAShellWouldSplit) {
  EXPECT_EQ(quote_word("a-b=c"), "a-b=c");
  EXPECT_EQ(quote_word("it's"), "'it'\\''s'");
  EXPECT_EQ(quote_word(""), "''");
}

TEST(TransportChoiceTest, TakesMpiWhereMpirunStartsAJobThatIsNotRestarted) {
  RunOptions options;
  const auto best =
      comm::mpi::is_built() ? topology::TransportKind::Mpi : topology::TransportKind::Tcp;
  EXPECT_EQ(choose_transport(options, EngineKind::Mpirun), best);
  EXPECT_EQ(choose_transport(options, EngineKind::Ssh), topology::TransportKind::Tcp);
  options.max_restarts = 1;
  EXPECT_EQ(choose_transport(options, EngineKind::Mpirun), topology::TransportKind::Tcp);
  options.transport = topology::TransportKind::Tcp;
  EXPECT_EQ(choose_transport(options, EngineKind::Srun), topology::TransportKind::Tcp);
}

}  // namespace
}  // namespace lockstep::launch

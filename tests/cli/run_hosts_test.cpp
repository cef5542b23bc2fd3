// Jobs over hosts that are all this machine, through agents that a fake ssh starts.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <thread>

#include "lockstep/base/file.h"
#include "lockstep/comm/tcp/secret.h"
#include "lockstep/comm/tcp/socket.h"
#include "lockstep/events/event_log.h"
#include "tests/support/fake_hosts.h"

namespace lockstep::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> script(const std::string& text) {
  return {"sh", "-c", text};
}

/// Four instances on two hosts.
std::vector<std::string> on_two(std::vector<std::string> options, const std::string& text) {
  options.insert(options.begin(), {"--num-instances", "4"});
  return FakeHosts::run_command("x1:2,x2:2", std::move(options), script(text));
}

const std::vector<const char*> kAllUp{"up 0\n", "up 1\n", "up 2\n", "up 3\n"};

/// As Slurm would start agents: all at once, and they connect to the launcher.
constexpr const char* kSrun = R"(#!/bin/sh
while :; do case $1 in --nodelist=*) names=${1#*=}; shift;; --*) shift;; *) break;; esac; done
rank=0
for name in $(echo $names | tr , ' '); do
  FAKE_HOST=$name SLURMD_NODENAME=$name SLURM_PROCID=$rank "$@" &
  rank=$((rank + 1))
done
wait
)";

SubprocessOptions in_allocation(const FakeHosts& hosts) {
  hosts.folder().write("srun", kSrun, 0755);
  auto options = hosts.options();
  options.environment["SLURM_JOB_ID"] = "1";
  options.environment["SLURM_JOB_NODELIST"] = "x[1-2]";
  return options;
}

std::vector<std::string> on_two_of_slurm(std::vector<std::string> options,
                                         const std::string& text) {
  options.insert(options.begin(),
                 {"run", "--launcher", "srun", "--host", "x1:2,x2:2", "--num-instances", "4"});
  options.insert(options.end(), {"sh", "-c", text});
  return options;
}

TEST(RunHostsTest, TellsEachInstanceItsPlaceOnItsHost) {
  const FakeHosts hosts;
  const auto result =
      hosts.lockstep(on_two({},
                            "echo $RANK $LOCAL_RANK $LOCAL_WORLD_SIZE $LOCKSTEP_HOST_INDEX "
                            "$MASTER_ADDR; echo $LOCKSTEP_HOSTS"));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const auto lines = sorted_lines(result.out);
  EXPECT_THAT(lines, StartsWith("[0] 0 0 2 0 127.0.0.2\n"));
  EXPECT_THAT(lines, HasSubstr("[1] 1 1 2 0 127.0.0.2\n"));
  EXPECT_THAT(lines, HasSubstr("[2] 2 0 2 1 127.0.0.2\n"));
  EXPECT_THAT(lines, HasSubstr("[3] 3 1 2 1 127.0.0.2\n"));
  EXPECT_THAT(lines, ContainsRegex("\\[3\\] x1,127.0.0.2,[0-9]+,2;x2,127.0.0.3,[0-9]+,2\n"));
}

TEST(RunHostsTest, GivesTheFirstInstanceOfAHostItsListenerAndAllTheSecret) {
  const FakeHosts hosts;
  const auto result = hosts.lockstep(
      on_two({},
             "echo ${LOCKSTEP_LISTENER:+listens}; "
             "[ -z \"$LOCKSTEP_LISTENER\" ] || readlink "
             "/proc/self/fd/$LOCKSTEP_LISTENER | cut -d: -f1; "
             "stat -c %a $LOCKSTEP_RUN_DIR/secret; "
             "wc -c < $LOCKSTEP_RUN_DIR/secret; env | grep -c ^[A-Z_]*_AGENT_ || true"));
  const auto lines = sorted_lines(result.out);
  EXPECT_THAT(lines, HasSubstr("[0] listens\n[0] socket\n"));
  EXPECT_THAT(lines, HasSubstr("[2] listens\n[2] socket\n"));
  EXPECT_THAT(lines, Not(HasSubstr("[1] listens\n")));
  for (const auto* line : {"[0] 600\n", "[1] 65\n", "[3] 0\n"}) EXPECT_THAT(lines, HasSubstr(line));
}

TEST(RunHostsTest, HandsOnTheLaunchersVariablesAndFolderButNotThoseOfItsHost) {
  const FakeHosts hosts;
  auto options = hosts.options();
  options.environment["GREETING"] = "hello\xff there";
  options.environment["SSH_CONNECTION"] = "the launcher's own";
  const auto result = testing::lockstep(
      on_two({"--env", "MORE=a b"}, "echo \"$GREETING/$MORE/$SSH_CONNECTION\"; pwd"), options);
  EXPECT_THAT(result.out, HasSubstr("[3] hello\xff there/a b/127.0.0.1 4000 127.0.0.3 22\n"));
  EXPECT_THAT(result.out, HasSubstr("[2] " + std::filesystem::current_path().string() + "\n"));
}

TEST(RunHostsTest, ReadsNothingFromStandardInput) {
  const FakeHosts hosts;
  auto options = hosts.options();
  options.input = "some words\n";
  const auto result = testing::lockstep(on_two({}, "wc -c"), options);
  EXPECT_EQ(sorted_lines(result.out), "[0] 0\n[1] 0\n[2] 0\n[3] 0\n");
}

TEST(RunHostsTest, PassesOnAllOutputOfAllHostsHoweverMuch) {
  const FakeHosts hosts;
  const auto result = hosts.lockstep(on_two({"--tag-output", "never"}, "seq 1 200000"));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(std::ranges::count(result.out, '\n'), 4 * 200000);
}

TEST(RunHostsTest, NamesAnInstanceOfAnotherHostThatFailedAndItsLastLines) {
  const FakeHosts hosts;
  const auto result = hosts.lockstep(on_two(
      {"--grace-period", "50"}, "if [ $RANK = 3 ]; then echo why >&2; exit 42; fi; sleep 60"));
  EXPECT_EQ(result.exit_code, 42);
  EXPECT_THAT(result.err,
              ContainsRegex("lockstep: instance 3 failed: exit code 42, after [0-9.]+ s "
                            "\\(host x2, pid [0-9]+\\)\n  its last lines on stderr:\n  \\| why\n"));
  EXPECT_THAT(result.err, HasSubstr("lockstep: ended with instance 3: 0-2 (killed by SIGTERM)\n"));
  EXPECT_LT(result.time.count(), 20);
}

TEST(RunHostsTest, NeverEndsWithTheCodeOfAVictimOnAnotherHost) {
  const FakeHosts hosts;
  // Instance 3 fails when instance 0 is gone already. All hosts are this machine.
  const auto pid = hosts.folder().path() + "/pid";
  const auto result = hosts.lockstep(on_two(
      {}, fmt::format("case $RANK in 0) echo $$ > {0}.new; mv {0}.new {0}; exit 7;; "
                      "3) while [ ! -e {0} ]; do sleep 0.01; done; "
                      "while [ -e /proc/$(cat {0}) ]; do sleep 0.01; done; exit 3;; esac; sleep 60",
                      pid)));
  EXPECT_EQ(result.exit_code, 3);
  EXPECT_THAT(result.err, HasSubstr("instance 3 failed: exit code 3"));
  EXPECT_THAT(result.err, HasSubstr("0 (exit code 7)"));
}

TEST(RunHostsTest, SaysWhyAProgramCannotBeExecutedThere) {
  const FakeHosts hosts;
  const auto broken = hosts.folder().write("broken", std::string("\x7f") + "ELF no", 0755);
  const auto result =
      hosts.lockstep(FakeHosts::run_command("x1,x2", {"--num-instances", "2"}, {broken}));
  EXPECT_EQ(result.exit_code, 126);
  EXPECT_THAT(result.err, ContainsRegex("host x[12]: run: '.*broken' cannot be executed: "));
}

TEST(RunHostsTest, EndsAllHostsOnCtrlCAndKillsOnTheSecond) {
  const FakeHosts hosts;
  Subprocess job(lockstep_command(on_two({"--grace-period", "50"},
                                         "trap '' TERM; echo up $RANK; while :; do sleep 0.05; "
                                         "done")),
                 hosts.options());
  for (const auto* line : {"up 0\n", "up 1\n", "up 2\n", "up 3\n"}) ASSERT_TRUE(job.wait_for(line));
  job.signal(SIGINT);
  ASSERT_TRUE(job.wait_for("lockstep: SIGINT: ending the job; what is left after 50 s is killed"));
  EXPECT_TRUE(eventually(
      [&] {
        job.signal(SIGINT);
        return job.wait_for_exit(20ms);
      },
      30s));
  EXPECT_EQ(job.wait().exit_code, 128 + SIGINT);
  EXPECT_TRUE(hosts.wait_until_gone(20s));
}

TEST(RunHostsTest, LetsInstancesOfAllHostsStopInTheirOwnWay) {
  const FakeHosts hosts;
  Subprocess job(lockstep_command(on_two({},
                                         "trap 'echo saved; exit 75' TERM; echo up $RANK; "
                                         "while :; do sleep 0.05; done")),
                 hosts.options());
  for (const auto* line : {"up 0\n", "up 1\n", "up 2\n", "up 3\n"}) ASSERT_TRUE(job.wait_for(line));
  job.signal(SIGTERM);
  const auto result = job.wait(30s);
  EXPECT_EQ(result.exit_code, 75);
  EXPECT_THAT(result.out, HasSubstr("[3] saved\n"));
}

TEST(RunHostsTest, AnAgentThatSlurmTellsToEndTellsTheLauncher) {
  const FakeHosts hosts;
  Subprocess job(lockstep_command(on_two_of_slurm({},
                                                  "trap 'exit 75' TERM; echo up $RANK; "
                                                  "while :; do sleep 0.05; done")),
                 in_allocation(hosts));
  for (const auto* line : kAllUp) ASSERT_TRUE(job.wait_for(line));
  ::kill(hosts.agents("x2").front(), SIGTERM);
  EXPECT_EQ(job.wait(30s).exit_code, 75);
}

TEST(RunHostsTest, AnAgentThatAnybodyElseTellsToEndGoesOn) {
  const FakeHosts hosts;
  Subprocess job(lockstep_command(on_two({},
                                         "trap 'exit 75' TERM; trap 'sleep 0.5; exit 0' USR1; "
                                         "echo up $RANK; while :; do sleep 0.05; done")),
                 hosts.options());
  for (const auto* line : kAllUp) ASSERT_TRUE(job.wait_for(line));
  ::kill(hosts.agents("x2").front(), SIGTERM);
  job.signal(SIGUSR1);
  const auto result = job.wait(30s);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.err, Not(HasSubstr("SIGTERM")));
}

struct SilentHostCase {
  const char* name;
  std::vector<int> signals;
  const char* program;
  int exit_code;
  friend std::ostream& operator<<(std::ostream& out, const SilentHostCase& one) {
    return out << one.name;
  }
};

class SilentHostTest : public ::testing::TestWithParam<SilentHostCase> {};

TEST_P(SilentHostTest, IsGivenUpWhereTheJobEndsThoughItMayBeSilentForEver) {
  const FakeHosts hosts;
  Subprocess job(
      lockstep_command(on_two({"--stall-timeout", "0", "--grace-period", "1"}, GetParam().program)),
      hosts.options());
  for (const auto* line : kAllUp) ASSERT_TRUE(job.wait_for(line));
  for (const auto pid : hosts.agents("x2")) ::kill(pid, SIGSTOP);
  for (const int signal : GetParam().signals) job.signal(signal);
  const auto result = job.wait(30s);
  EXPECT_EQ(result.exit_code, GetParam().exit_code) << result.err;
  EXPECT_THAT(result.err, HasSubstr("host x2 does not say that the job has ended there"));
  for (const auto pid : hosts.processes()) ::kill(pid, SIGCONT);
  EXPECT_TRUE(hosts.wait_until_gone(20s));
}

INSTANTIATE_TEST_SUITE_P(
    All, SilentHostTest,
    ::testing::Values(
        SilentHostCase{"CtrlC", {SIGINT}, "echo up $RANK; exec sleep 60", 128 + SIGINT},
        SilentHostCase{"AtOnce", {SIGQUIT}, "echo up $RANK; exec sleep 60", 128 + SIGQUIT},
        SilentHostCase{"Failure",
                       {SIGUSR1},
                       "[ $RANK != 0 ] || trap 'exit 42' USR1; [ $RANK = 0 ] || trap '' USR1; "
                       "echo up $RANK; while :; do sleep 0.05; done",
                       42}),
    [](const auto& test) { return test.param.name; });

TEST(RunHostsTest, AnAgentWhoseAnswerCannotBeReadIsNotFit) {
  const FakeHosts hosts;
  const std::string pong("\x09\x00\x00\x00\x81\xa2is\xa4pong", 13);
  const auto words = hosts.folder().write("words", "\nlockstep-agent 1\n" + pong);
  hosts.replace_agent("x2", "cat " + words + "; exec cat > /dev/null\n");
  const auto result =
      hosts.lockstep(FakeHosts::run_command("x1,x2", {"--host-check-only"}, {"true"}));
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.out, HasSubstr("x2: its agent says 'pong', which cannot be read: "));
}

/// What an agent of this build would say, but of an instance that is not there.
TEST(RunHostsTest, AHostThatTellsOfAnInstanceThatIsNotThereIsNotFit) {
  const FakeHosts hosts;
  const std::string stalled(
      "\x2a\x00\x00\x00\x85\xa2is\xa7stalled\xa8instance\x09\xa3pid\x01\xa7seconds\x01\xa4step\xc0",
      46);
  const auto words = hosts.folder().write("words", "\nlockstep-agent 1\n" + stalled);
  hosts.replace_agent("x2", "cat " + words + "; exec cat > /dev/null\n");
  const auto result =
      hosts.lockstep(FakeHosts::run_command("x1,x2", {"--host-check-only"}, {"true"}));
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.out, HasSubstr("cannot be read: there is no instance 9 on it"));
}

TEST(RunHostsTest, PassesSignalsOnToInstancesOfAllHosts) {
  const FakeHosts hosts;
  Subprocess job(lockstep_command(on_two({},
                                         "trap 'echo got; exit 0' USR1; echo up $RANK; "
                                         "while :; do sleep 0.05; done")),
                 hosts.options());
  for (const auto* line : {"up 0\n", "up 1\n", "up 2\n", "up 3\n"}) ASSERT_TRUE(job.wait_for(line));
  job.signal(SIGUSR1);
  const auto result = job.wait(30s);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(std::ranges::count(result.out, 'g'), 4);
}

TEST(RunHostsTest, NothingOutlivesTheLauncherWhenItIsKilled) {
  const FakeHosts hosts;
  Subprocess job(lockstep_command(FakeHosts::run_command("x1:1,x2:1", {"--num-instances", "2"},
                                                         {STUBBORN_TREE_BINARY})),
                 hosts.options());
  for (const auto* line : {"[0] ready\n", "[1] ready\n"}) ASSERT_TRUE(job.wait_for(line));
  job.signal(SIGKILL);
  EXPECT_TRUE(eventually(
      [&] {
        job.wait_for_exit(0s);
        return hosts.processes().empty();
      },
      30s));
}

TEST(RunHostsTest, AHostWhoseAgentIsKilledIsLost) {
  const FakeHosts hosts;
  Subprocess job(lockstep_command(on_two({}, "echo up $RANK; exec sleep 60")), hosts.options());
  for (const auto* line : {"up 0\n", "up 1\n", "up 2\n", "up 3\n"}) ASSERT_TRUE(job.wait_for(line));
  for (const auto pid : hosts.agents("x2")) ::kill(pid, SIGKILL);
  const auto result = job.wait(30s);
  EXPECT_EQ(result.exit_code, 7);
  // Which of its two processes is seen to die first is up to the kernel.
  EXPECT_THAT(result.err,
              ContainsRegex("lockstep: host x2 \\(127.0.0.3\\) is lost: (the connection "
                            "has ended|its agent was killed); instances 2-3 were on it\n"));
  EXPECT_THAT(result.err, HasSubstr("lockstep: ended with host x2: 0-1 (killed by SIGTERM)\n"));
  EXPECT_TRUE(hosts.wait_until_gone(20s));
}

TEST(RunHostsTest, AHostThatSaysNothingForTheStallTimeoutIsLost) {
  const FakeHosts hosts;
  Subprocess job(lockstep_command(on_two({"--stall-timeout", "4"}, "echo up $RANK; exec sleep 60")),
                 hosts.options());
  for (const auto* line : {"up 0\n", "up 1\n", "up 2\n", "up 3\n"}) ASSERT_TRUE(job.wait_for(line));
  for (const auto pid : hosts.agents("x2")) ::kill(pid, SIGSTOP);
  const auto result = job.wait(30s);
  EXPECT_EQ(result.exit_code, 6);
  EXPECT_THAT(result.err, ContainsRegex("lockstep: host x2 \\(127.0.0.3\\) is lost: no answer for "
                                        "[0-9.]+ s; instances 2-3 were on it\n"));
  for (const auto pid : hosts.processes()) ::kill(pid, SIGCONT);
  EXPECT_TRUE(hosts.wait_until_gone(20s));
}

TEST(RunHostsTest, StartsAFailedJobAgainOnAllHosts) {
  const FakeHosts hosts;
  const ScratchFolder logs;
  const auto result = hosts.lockstep(
      on_two({"--max-restarts", "2", "--log-dir", logs.path()},
             "echo start $LOCKSTEP_RESTART_COUNT; [ $LOCKSTEP_RESTART_COUNT = 1 ] || [ $RANK != 2 "
             "] || exit 9; [ $RANK != 3 ] || echo '{\"event\":\"mine\"}' >> $LOCKSTEP_EVENTS"));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("lockstep: starting the job again: restart 1 of 2\n"));
  EXPECT_THAT(result.out, HasSubstr("[0] start 1\n"));
  EXPECT_THAT(result.out, HasSubstr("[3] start 1\n"));
  const auto log = events::read_event_log(logs.path() + "/events.jsonl");
  const auto count = [&](const std::string& event) {
    return std::ranges::count(log, event, &events::LogEntry::event);
  };
  EXPECT_EQ(count("start"), 8);
  EXPECT_EQ(count("death"), 8);
  EXPECT_GE(count("mine"), 1);
  EXPECT_EQ(log.back().event, "end");
  EXPECT_THAT(read_file(logs.path() + "/instance-3.stdout"), HasSubstr("start 1\n"));
}

TEST(RunHostsTest, MakesTheLogFolder) {
  const FakeHosts hosts;
  const auto logs = hosts.folder().path() + "/made/for/logs";
  const auto result = hosts.lockstep(on_two({"--log-dir", logs}, "echo $RANK"));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(read_file(logs + "/instance-3.stdout"), "3\n");
  EXPECT_EQ(events::read_event_log(logs + "/events.jsonl").back().event, "end");
}

TEST(RunHostsTest, NamesTheHostWhereTheLogFolderCannotBeMade) {
  const FakeHosts hosts;
  const auto logs = hosts.folder().path() + "/logs";
  // It is a file by the time that the job starts.
  hosts.replace_agent("x2",
                      fmt::format("rm -r {0}; touch {0}; exec {1} agent\n", logs, LOCKSTEP_BINARY));
  const auto result =
      hosts.lockstep(FakeHosts::run_command("x2", {"--log-dir", logs}, script("echo started")));
  EXPECT_EQ(result.exit_code, 5);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("host x2: run: --log-dir " + logs + ": Not a directory\n"));
}

TEST(RunHostsTest, AnAgentOfThisMachineDoesNotTakeTheAddressOfTheUsersLogin) {
  const FakeHosts hosts;
  auto options = hosts.options();
  options.environment["SSH_CONNECTION"] = "192.0.2.7 4000 192.0.2.8 22";
  const auto result = testing::lockstep(
      FakeHosts::run_command("localhost,x1", {"--host-check-only"}, {"true"}), options);
  EXPECT_EQ(result.exit_code, 0) << result.out << result.err;
  EXPECT_THAT(result.out, ContainsRegex("localhost +127.0.0.1 +ok"));
}

TEST(RunHostsTest, WaitsForALostHostToComeBack) {
  const FakeHosts hosts;
  Subprocess job(lockstep_command(on_two({"--max-restarts", "1"},
                                         "[ $LOCKSTEP_RESTART_COUNT = 0 ] || exit 0; "
                                         "echo up $RANK; exec sleep 60")),
                 hosts.options());
  for (const auto* line : {"up 0\n", "up 1\n", "up 2\n", "up 3\n"}) ASSERT_TRUE(job.wait_for(line));
  hosts.unplug("x2");
  for (const auto pid : hosts.agents("x2")) ::kill(pid, SIGKILL);
  ASSERT_TRUE(job.wait_for("lockstep: waiting for host x2 to come back, for up to 300 s\n"));
  hosts.plug_in("x2");
  const auto result = job.wait(40s);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("lockstep: 1 restart: host x2 lost\n"));
}

/// One instance on each of three hosts, of which the second is lost and waited for.
class AwaitedHostTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const auto* line : {"up 0\n", "up 1\n", "up 2\n"}) ASSERT_TRUE(job_.wait_for(line));
    hosts_.unplug("x2");
    for (const auto pid : hosts_.agents("x2")) ::kill(pid, SIGKILL);
    ASSERT_TRUE(job_.wait_for("lockstep: waiting for host x2 to come back, for up to 300 s\n"));
  }

  FakeHosts hosts_;
  Subprocess job_{
      lockstep_command(FakeHosts::run_command(
          "x1,x2,x3", {"--num-instances", "3", "--max-restarts", "1", "--stall-timeout", "4"},
          script("[ $LOCKSTEP_RESTART_COUNT = 0 ] || exit 0; echo up $RANK; exec sleep 60"))),
      hosts_.options()};
};

TEST_F(AwaitedHostTest, ComesBackWithOneThatIsLostMeanwhile) {
  hosts_.unplug("x3");
  for (const auto pid : hosts_.agents("x3")) ::kill(pid, SIGKILL);
  ASSERT_TRUE(job_.wait_for("lockstep: waiting for hosts x2, x3 to come back, for up to "));
  hosts_.plug_in("x2");
  hosts_.plug_in("x3");
  const auto result = job_.wait(40s);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_TRUE(hosts_.wait_until_gone(20s));
}

TEST_F(AwaitedHostTest, ComesBackThoughAnotherFallsSilentMeanwhile) {
  for (const auto pid : hosts_.agents("x3")) ::kill(pid, SIGSTOP);
  ASSERT_TRUE(job_.wait_for("lockstep: waiting for hosts x2, x3 to come back, for up to "));
  hosts_.plug_in("x2");
  const auto result = job_.wait(40s);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  for (const auto pid : hosts_.processes()) ::kill(pid, SIGCONT);
  EXPECT_TRUE(hosts_.wait_until_gone(20s));
}

/// As mpirun does where it has lost the other one.
TEST(RunHostsTest, AHostWhoseAgentIsKilledIsNotBlamedWhereAnotherIsSilent) {
  const FakeHosts hosts;
  Subprocess job(
      lockstep_command(on_two({"--stall-timeout", "30"}, "echo up $RANK; exec sleep 60")),
      hosts.options());
  for (const auto* line : kAllUp) ASSERT_TRUE(job.wait_for(line));
  for (const auto pid : hosts.agents("x2")) ::kill(pid, SIGSTOP);
  // It is suspicious by now. The warning comes later.
  ASSERT_TRUE(job.wait_for("lockstep: warning: host x2 (127.0.0.3) has not answered for "));
  ::kill(hosts.agents("x1").front(), SIGKILL);
  const auto result = job.wait(40s);
  EXPECT_EQ(result.exit_code, 6);
  EXPECT_THAT(result.err, HasSubstr("lockstep: host x2 (127.0.0.3) is lost: no answer for "));
  for (const auto pid : hosts.processes()) ::kill(pid, SIGCONT);
  EXPECT_TRUE(hosts.wait_until_gone(20s));
}

/// The launcher has little room for those who have not proven themselves: strangers may take it.
TEST(RunHostsTest, AnAgentThatTheLauncherHangsUpOnTriesAgain) {
  const auto socket = comm::tcp::listen_at({"127.0.0.1", 0});
  const Subprocess agent(
      lockstep_command({"agent"}),
      {.environment = {{"LOCKSTEP_AGENT_LAUNCHER",
                        fmt::format("127.0.0.1 {}", comm::tcp::port_of(socket.get()))},
                       {"LOCKSTEP_AGENT_SECRET", comm::tcp::Secret::random().to_text()}}});
  const auto hang_up = [&] {
    const UniqueFd guest(::accept(socket.get(), nullptr, nullptr));
    return static_cast<bool>(guest);
  };
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(eventually(hang_up, 20s));
}

TEST(RunHostsTest, CheckedHostsAreShownInATable) {
  const FakeHosts hosts;
  const auto result =
      hosts.lockstep(FakeHosts::run_command("x1,localhost,x2", {"--host-check-only"}, {"true"}));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out,
              ContainsRegex("host       address    reached  lockstep  program  clock   routes\n"
                            "x1         127.0.0.2  ok       ok        ok       [+-]0.0 s  ok\n"
                            "localhost  127.0.0.1  ok       ok        ok       [+-]0.0 s  ok\n"
                            "x2         127.0.0.3  ok       ok        ok       [+-]0.0 s  ok\n"));
}

TEST(RunHostsTest, EveryHostThatIsNotFitIsNamedBeforeAnythingStarts) {
  const FakeHosts hosts;
  hosts.unplug("x2");
  const auto result = hosts.lockstep(
      FakeHosts::run_command("x1,nowhere,x2", {"--num-instances", "3"}, script("echo started")));
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("run: some hosts failed the checks; no instance was started"));
  EXPECT_THAT(result.err, HasSubstr("nowhere: ssh: Could not resolve hostname nowhere"));
  EXPECT_THAT(result.err, HasSubstr("x2: ssh: connect to host x2 port 22: No route to host"));
  EXPECT_THAT(result.err, ContainsRegex("x1 +127.0.0.2 +ok +ok +ok"));
}

TEST(RunHostsTest, AnAgentThatCannotBeStartedSaysWhy) {
  const FakeHosts hosts;
  hosts.replace_agent("x2", "echo 'sh: 1: exec: /nowhere/lockstep: not found' >&2; exit 127\n");
  const auto result =
      hosts.lockstep(FakeHosts::run_command("x1,x2", {"--host-check-only"}, {"true"}));
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.out, HasSubstr("x2: sh: 1: exec: /nowhere/lockstep: not found\n"));
}

/// What an agent of another version would send: a message of MessagePack with its length in front.
std::string hello_of(const std::string& version) {
  const auto text = [](const std::string& word) {
    return std::string(1, static_cast<char>(0xa0 | word.size())) + word;
  };
  const std::vector<std::pair<std::string, std::string>> fields{
      {"is", "hello"}, {"version", version}, {"commit", "cafe"},
      {"build", "b"},  {"name", "x2"},       {"address", "127.0.0.3"}};
  std::string packed(1, static_cast<char>(0x80 | (fields.size() + 2)));
  for (const auto& [name, value] : fields) packed += text(name) + text(value);
  packed += text("rank") + '\x00';
  packed += text("machine") + '\x84' + text("model") + text("m") + text("memory") + '\x01' +
            text("cores") + '\x90' + text("quota") + '\xc0';
  std::string length(4, '\0');
  length[0] = static_cast<char>(packed.size());
  return "noise of a login shell\n\nlockstep-agent 1\n" + length + packed;
}

TEST(RunHostsTest, AnotherVersionIsRefused) {
  const FakeHosts hosts;
  const auto words = hosts.folder().write("words", hello_of("0.0.7"));
  hosts.replace_agent("x2", "cat " + words + "; exec cat > /dev/null\n");
  const auto result =
      hosts.lockstep(FakeHosts::run_command("x1,x2", {"--host-check-only"}, {"true"}));
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.out, ContainsRegex("x2 +127.0.0.3 +ok +no"));
  EXPECT_THAT(result.out, ContainsRegex("x2: expected lockstep [^ ]+ \\(.*\\), found 0.0.7 "
                                        "\\(cafe\\)\n"));
}

TEST(RunHostsTest, SkipsWhatALoginShellSaysBeforeTheAgent) {
  const FakeHosts hosts;
  hosts.replace_agent("x2",
                      std::string("echo Welcome to x2; exec ") + LOCKSTEP_BINARY + " agent\n");
  const auto result = hosts.lockstep(on_two({}, "echo hi"));
  EXPECT_EQ(sorted_lines(result.out), "[0] hi\n[1] hi\n[2] hi\n[3] hi\n");
}

TEST(RunHostsTest, KeepsMemoryOfEachHostOverARestart) {
  const FakeHosts hosts;
  // Instance 3 fails once when the others have written their lines.
  const auto result = hosts.lockstep(
      on_two({"--max-restarts", "1"},
             fmt::format("m=/proc/self/fd/$LOCKSTEP_KEPT_MEMORY; ls -iL $m | cut -d' ' -f1; "
                         "[ $LOCKSTEP_RESTART_COUNT = 0 ] || exit 0; touch {0}/up-$RANK; "
                         "if [ $RANK = 3 ]; then while [ ! -e {0}/up-0 -o ! -e {0}/up-1 -o "
                         "! -e {0}/up-2 ]; do sleep 0.01; done; exit 9; fi; sleep 60",
                         hosts.folder().path())));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  // The same file in both attempts, one on each host.
  std::set<std::string> numbers;
  for (std::size_t at = 0; (at = result.out.find("] ", at)) != std::string::npos; ++at) {
    numbers.insert(result.out.substr(at + 2, result.out.find('\n', at) - at - 2));
  }
  EXPECT_EQ(std::ranges::count(result.out, '\n'), 8);
  EXPECT_EQ(numbers.size(), 2U);
}

TEST(RunHostsTest, ASignalThatAgentsAndLauncherAreToldIsOne) {
  const FakeHosts hosts;
  Subprocess job(lockstep_command(on_two_of_slurm({"--grace-period", "20"},
                                                  "trap 'sleep 0.6; exit 75' TERM; echo up $RANK; "
                                                  "while :; do sleep 0.05; done")),
                 in_allocation(hosts));
  for (const auto* line : {"up 0\n", "up 1\n", "up 2\n", "up 3\n"}) ASSERT_TRUE(job.wait_for(line));
  ::kill(hosts.agents("x1").front(), SIGTERM);
  ASSERT_TRUE(job.wait_for("lockstep: SIGTERM: ending the job"));
  std::this_thread::sleep_for(300ms);  // longer than what counts as the same signal anyway
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait(30s).exit_code, 75);
}

TEST(RunHostsTest, SaysWhatSshSaidBeforeThePageOfAdviceThatMpirunGives) {
  const FakeHosts hosts;
  hosts.folder().write("mpirun",
                       "#!/bin/sh\necho 'root@x2: Permission denied (publickey).' >&2\n"
                       "for i in $(seq 60); do echo '  Please check your settings.' >&2; done\n"
                       "exit 255\n",
                       0755);
  const auto result =
      hosts.lockstep({"run", "--launcher", "mpirun", "--host", "x1,x2", "--host-check-only"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.out, HasSubstr("x2: root@x2: Permission denied (publickey).\n"));
}

/// Real ones, on this host alone.
class RunMpirunTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (run({"sh", "-c", "command -v mpirun"}).exit_code != 0) GTEST_SKIP() << "no mpirun";
  }

  /// For longer than the launcher waits for agents: so that it can say what is wrong.
  static constexpr auto kPatience = 90s;
  static Finished run_job(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"run", "--launcher", "mpirun", "--stall-timeout", "20"});
    return Subprocess(lockstep_command(std::move(arguments))).wait(kPatience);
  }
};

TEST_F(RunMpirunTest, StartsAnAgentThatFindsTheLauncher) {
  const auto result =
      run_job({"--host", "localhost:2", "--num-instances", "2", "-v", "sh", "-c", "echo hi $RANK"});
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(sorted_lines(result.out), "[0] hi 0\n[1] hi 1\n");
  EXPECT_THAT(result.err, HasSubstr("lockstep: mpirun --host localhost -np 1 --map-by ppr:1:node"));
}

TEST_F(RunMpirunTest, KeepsOurReportAndExitCode) {
  const auto result = run_job({"--host", "localhost:2", "--num-instances", "2", "sh", "-c",
                               "[ $RANK = 1 ] && exit 42; sleep 60"});
  EXPECT_EQ(result.exit_code, 42);
  EXPECT_THAT(result.err, StartsWith("lockstep: instance 1 failed: exit code 42"));
  EXPECT_THAT(result.err, Not(HasSubstr("mpirun")));
}

TEST_F(RunMpirunTest, StartsAllAgentsAnewWhereOneIsKilled) {
  const auto mark = unique_mark("mpirun");
  Subprocess job(
      lockstep_command({"run", "--launcher", "mpirun", "--host", "localhost:2", "--num-instances",
                        "2", "--max-restarts", "1", "--stall-timeout", "20", "sh", "-c",
                        "[ $LOCKSTEP_RESTART_COUNT = 1 ] && exit 0; echo $PPID:up; "
                        "exec sleep 60"}),
      {.environment = {{"LOCKSTEP_TEST_MARK", mark}}});
  ASSERT_TRUE(job.wait_for(":up\n", kPatience));
  const auto at = job.out().find("] ") + 2;
  // The supervisor of the agent: its warden ends what is left.
  ::kill(std::stoi(job.out().substr(at, job.out().find(':', at) - at)), SIGKILL);
  const auto result = job.wait(kPatience);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("lockstep: host localhost (127.0.0.1) is lost"));
  EXPECT_THAT(result.err, HasSubstr("starting the job again: restart 1 of 1"));
  EXPECT_TRUE(processes_with("LOCKSTEP_TEST_MARK=" + mark).empty());
}

TEST_F(RunMpirunTest, SaysWhatMpirunSaidWhereItFails) {
  const auto result = run_job(
      {"--host", "localhost", "--mpi-global-args", "--no-such-option", "--host-check-only"});
  EXPECT_EQ(result.exit_code, 4);
  EXPECT_THAT(result.out, HasSubstr("no-such-option"));
}

TEST(RunHostsTest, SeveralNamesOfThisMachineAreSeveralHosts) {
  const auto result = lockstep({"run", "--host", "localhost:1,127.0.0.1:1", "--num-instances", "2",
                                "sh", "-c", "echo $LOCKSTEP_HOST_INDEX $LOCAL_WORLD_SIZE"});
  EXPECT_EQ(sorted_lines(result.out), "[0] 0 1\n[1] 1 1\n");
}

struct BadHostsCall {
  std::vector<std::string> arguments;
  int exit_code;
  const char* complaint;
  friend std::ostream& operator<<(std::ostream& out, const BadHostsCall& bad) {
    return out << bad.complaint;
  }
};

class BadHostsCallTest : public ::testing::TestWithParam<BadHostsCall> {};

TEST_P(BadHostsCallTest, IsRefusedBeforeAnyHostIsAsked) {
  auto arguments = GetParam().arguments;
  arguments.insert(arguments.begin(), {"run", "--num-instances", "2"});
  const auto result = lockstep(arguments, {.environment = {{"SLURM_JOB_ID", ""}}});
  EXPECT_EQ(result.exit_code, GetParam().exit_code);
  EXPECT_THAT(result.err, HasSubstr(GetParam().complaint));
}

INSTANTIATE_TEST_SUITE_P(
    All, BadHostsCallTest,
    ::testing::Values(
        BadHostsCall{
            {"--host", "a,b", "--launcher", "local", "true"}, 4, "host 'a' is not this machine"},
        BadHostsCall{{"--host", "a,b", "--launcher", "ssh", "--transport", "shm", "true"},
                     2,
                     "--transport shm stays within one host, but the job is on several"},
        BadHostsCall{{"--host", "a,b", "--launcher", "ssh", "--transport", "mpi", "true"},
                     2,
                     "--transport mpi needs mpirun to start the job, found --launcher ssh"},
        BadHostsCall{{"--host", "a,b", "--launcher", "mpirun", "--transport", "mpi",
                      "--max-restarts", "1", "true"},
                     2,
                     "MPI ends every rank when one dies"},
        BadHostsCall{{"--host", "a,b", "--launcher", "ssh", "--chaos", "1", "true"},
                     2,
                     "--chaos is for jobs on this machine alone, but this one has agents"},
        BadHostsCall{{"--host", "a", "--launcher", "ssh", "--chaos", "1", "true"},
                     2,
                     "--chaos is for jobs on this machine alone, but this one has agents"},
        BadHostsCall{{"--host", "a", "--launcher", "ssh", "--transport", "mpi", "true"},
                     2,
                     "--transport mpi needs mpirun to start the job, found --launcher ssh"},
        BadHostsCall{{"--host", "a,b", "--launcher", "ssh", "--mpi-global-args", "-x A", "true"},
                     2,
                     "--mpi-global-args is for mpirun, but the job's launcher is ssh\n"
                     "  try: --launcher mpirun, or leave --mpi-global-args out"},
        BadHostsCall{{"--mpi-local-args", "-x A", "true"},
                     2,
                     "--mpi-local-args is for mpirun, but the job's launcher is local"},
        BadHostsCall{{"--host", "a,b", "--launcher", "ssh", "--log-dir", "/dev/null/x", "true"},
                     5,
                     "run: --log-dir /dev/null/x: Not a directory\n  try: --log-dir with"},
        BadHostsCall{
            {"--host", "a,b", "--launcher", "ssh", "--shrink", "--max-restarts", "2", "true"},
            2,
            "--shrink is for jobs on this machine alone"},
        BadHostsCall{{"--host", "a,b", "--launcher", "rsh", "true"}, 2, "rsh not in {auto,"},
        BadHostsCall{{"--launcher", "srun", "true"}, 4, "needs an allocation of Slurm's"},
        BadHostsCall{{"--host", "a,b", "--launcher", "mpirun", "--mpi-global-args", "'x", "true"},
                     2,
                     "--mpi-global-args is ''x': expected a closing ', found none"},
        BadHostsCall{{"--host", "a,b", "--launcher", "ssh", "no-such-program"},
                     127,
                     "program 'no-such-program' was not found"}));

TEST(RunHostsTest, AnAgentIsNotForUsers) {
  EXPECT_THAT(lockstep({"--help"}).out, Not(HasSubstr("agent")));
  EXPECT_THAT(lockstep({"agen"}).err, Not(HasSubstr("agent")));
  // Nobody is there to tell it what to do.
  EXPECT_EQ(lockstep({"agent"}).exit_code, 7);
}

}  // namespace
}  // namespace lockstep::testing

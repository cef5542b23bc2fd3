#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <functional>

#include "lockstep/base/file.h"
#include "lockstep/launch/supervise/descendants.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kMark = "LOCKSTEP_TEST_MARK=" + unique_mark("signals");

Subprocess start(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "run");
  return Subprocess(lockstep_command(arguments),
                    {.environment = {{"LOCKSTEP_TEST_MARK", unique_mark("signals")}}});
}

class EndingSignalTest : public ::testing::TestWithParam<int> {};

TEST_P(EndingSignalTest, EndsEverythingWithTheCodeOfTheSignal) {
  auto job =
      start({"--num-instances", "3", "--grace-period", "50", "sh", "-c", "echo up; sleep 60"});
  ASSERT_TRUE(job.wait_for("[2] up\n"));
  job.signal(GetParam());
  const auto result = job.wait(30s);
  EXPECT_EQ(result.exit_code, 128 + GetParam());
  EXPECT_LT(result.time.count(), 20);
  EXPECT_TRUE(processes_with(kMark).empty());
}

INSTANTIATE_TEST_SUITE_P(All, EndingSignalTest,
                         ::testing::Values(SIGINT, SIGTERM, SIGHUP, SIGQUIT));

TEST(RunSignalsTest, GivesInstancesTheGracePeriodAndThenKillsThem) {
  auto job = start({"--num-instances", "2", "--grace-period", "0.5", STUBBORN_TREE_BINARY});
  ASSERT_TRUE(job.wait_for("[0] ready\n") && job.wait_for("[1] ready\n"));
  const auto begin = std::chrono::steady_clock::now();
  job.signal(SIGINT);
  const auto result = job.wait(30s);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_GE(took.count(), 0.5);
  EXPECT_LT(took.count(), 20);
  EXPECT_THAT(result.err,
              HasSubstr("lockstep: SIGINT: ending the job; what is left after 0.5 s is killed\n"));
  EXPECT_TRUE(processes_with(kMark).empty());
}

TEST(RunSignalsTest, KillsAtOnceWhenAskedASecondTime) {
  auto job = start({"--num-instances", "2", "--grace-period", "50", STUBBORN_TREE_BINARY});
  ASSERT_TRUE(job.wait_for("[0] ready\n") && job.wait_for("[1] ready\n"));
  job.signal(SIGINT);
  ASSERT_TRUE(job.wait_for("what is left after 50 s is killed\n"));
  // Two that come within a quarter of a second count as one.
  eventually(
      [&] {
        job.signal(SIGINT);
        return job.wait_for_exit(20ms);
      },
      30s);
  const auto result = job.wait(30s);
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_THAT(result.err, HasSubstr("lockstep: SIGINT: killing the job\n"));
  EXPECT_TRUE(processes_with(kMark).empty());
}

/// Sends two signals that count as one if they come within 200 ms. Returns false if the machine was
/// too busy for that.
bool signal_twice(Subprocess& job, const std::function<void()>& first,
                  const std::function<void()>& second) {
  const auto begin = std::chrono::steady_clock::now();
  first();
  job.wait_for_exit(20ms);  // or the kernel makes one of the two
  second();
  return std::chrono::steady_clock::now() - begin < 100ms;
}

constexpr int kAttempts = 20;

TEST(RunSignalsTest, TakesASignalToItselfAndItsGroupForOne) {
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    auto job = start({"--grace-period", "20", "sh", "-c",
                      "trap 'echo saving; sleep 2.5; echo saved; exit 0' TERM; echo up; "
                      "while :; do sleep 0.05; done"});
    ASSERT_TRUE(job.wait_for("up\n"));
    // As `timeout` does it.
    if (!signal_twice(
            job, [&] { job.signal(SIGTERM); }, [&] { job.signal_group(SIGTERM); })) {
      continue;
    }
    const auto result = job.wait(30s);
    EXPECT_THAT(result.out, HasSubstr("saved\n"));
    EXPECT_EQ(result.exit_code, 128 + SIGTERM);
    return;
  }
  FAIL() << "the machine is too busy to send two signals at once";
}

/// The process below the launcher, to which it hands on signals.
pid_t supervisor_of(const Subprocess& job) {
  for (const auto& process : launch::descendants_of(job.pid())) {
    if (process.parent == job.pid()) return process.pid;
  }
  return -1;
}

TEST(RunSignalsTest, TakesASignalToAllItsProcessesForOne) {
  const auto script =
      "trap 'sleep 0.5; echo saved; exit 0' TERM; echo up; "
      "while :; do sleep 0.05; done";
  for (const bool launcher_first : {false, true}) {
    int attempt = 0;
    for (bool is_sent = false; !is_sent && attempt < kAttempts; ++attempt) {
      auto job = start({"--grace-period", "20", "sh", "-c", script});
      ASSERT_TRUE(job.wait_for("up\n"));
      const pid_t supervisor = supervisor_of(job);
      ASSERT_GT(supervisor, 0);
      const pid_t first = launcher_first ? job.pid() : supervisor;
      const pid_t second = launcher_first ? supervisor : job.pid();
      // When a cgroup is ended, the launcher passes the signal on to a supervisor that has it
      // already.
      is_sent = signal_twice(
          job, [&] { ::kill(first, SIGTERM); }, [&] { ::kill(second, SIGTERM); });
      if (!is_sent) continue;
      const auto result = job.wait(30s);
      EXPECT_THAT(result.out, HasSubstr("saved\n"));
      EXPECT_THAT(result.err, Not(HasSubstr("killing")));
      EXPECT_EQ(result.exit_code, 128 + SIGTERM);
    }
    EXPECT_LT(attempt, kAttempts) << "the machine is too busy to send two signals at once";
  }
}

TEST(RunSignalsTest, KillsAtOnceOnSigquitHoweverSoonItComes) {
  auto job = start({"--num-instances", "2", "--grace-period", "50", STUBBORN_TREE_BINARY});
  ASSERT_TRUE(job.wait_for("[0] ready\n") && job.wait_for("[1] ready\n"));
  job.signal(SIGTERM);
  ASSERT_TRUE(job.wait_for("what is left after 50 s is killed\n"));
  job.signal(SIGQUIT);
  const auto result = job.wait(30s);
  EXPECT_THAT(result.err, HasSubstr("lockstep: SIGQUIT: killing the job\n"));
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
  EXPECT_TRUE(processes_with(kMark).empty());
}

TEST(RunSignalsTest, KillsAtOnceThoughNobodyReadsItsOutput) {
  for (const int signal : {SIGQUIT, SIGINT}) {
    auto job =
        start({"--num-instances", "2", "--grace-period", "120", "sh", "-c", "trap '' TERM; yes"});
    ASSERT_TRUE(job.wait_for("y\n"));  // and no more is read
    job.signal(signal);
    EXPECT_TRUE(eventually(
        [&] {
          job.signal(signal);
          return job.wait_for_exit(150ms);
        },
        30s));
    EXPECT_EQ(job.wait(30s).exit_code, 128 + signal);
    EXPECT_TRUE(processes_with(kMark).empty());
  }
}

TEST(RunSignalsTest, GivesASlowReaderTheGracePeriod) {
  const ScratchFolder folder;
  const auto done = folder.path() + "/done";
  auto job = start({"--grace-period", "20", "sh", "-c", "seq 30000; touch " + done});
  // The instance has written all, more than a pipe holds, and nobody reads.
  ASSERT_TRUE(eventually([&] { return std::filesystem::exists(done); }, 20s));
  job.signal(SIGTERM);
  ASSERT_FALSE(job.wait_for_exit(300ms));
  const auto result = job.wait(30s);
  EXPECT_EQ(result.exit_code, 128 + SIGTERM);
  EXPECT_TRUE(result.out.ends_with("\n30000\n"));
}

TEST(RunSignalsTest, EndsEverythingWhenInterruptedWhileStarting) {
  for (int delay_ms = 0; delay_ms < 40; delay_ms += 2) {
    auto job = start({"--num-instances", "8", "sleep", "60"});
    job.wait_for_exit(std::chrono::milliseconds(delay_ms));
    job.signal(SIGINT);
    EXPECT_EQ(job.wait(30s).exit_code, 130) << delay_ms;
    EXPECT_TRUE(processes_with(kMark).empty()) << delay_ms;
  }
}

TEST(RunSignalsTest, EndsOnCtrlCOfATerminal) {
  Subprocess job(lockstep_command({"run", "--num-instances", "2", "sh", "-c", "echo up; sleep 60"}),
                 {.terminal = true});
  ASSERT_TRUE(job.wait_for("[0] up") && job.wait_for("[1] up"));
  job.type("\x03");
  const auto result = job.wait(30s);
  EXPECT_EQ(result.exit_code, 130);
  EXPECT_THAT(result.out, HasSubstr("lockstep: SIGINT: ending the job"));
  EXPECT_THAT(result.out, Not(HasSubstr("killing")));
}

TEST(RunSignalsTest, SaysWhyAnInstanceThatReadsTheTerminalStandsStill) {
  Subprocess job(lockstep_command({"run", "--num-instances", "2", "sh", "-c", "read x < /dev/tty"}),
                 {.terminal = true});
  ASSERT_TRUE(job.wait_for("is stopped: it uses the terminal"));
  job.type("\x03");
  EXPECT_EQ(job.wait(30s).exit_code, 130);
}

TEST(RunSignalsTest, EndsTheJobThoughItsSupervisorHangs) {
  auto job = start({"--num-instances", "2", "--grace-period", "0.2", STUBBORN_TREE_BINARY});
  ASSERT_TRUE(job.wait_for("[0] ready\n") && job.wait_for("[1] ready\n"));
  ::kill(supervisor_of(job), SIGSTOP);
  job.signal(SIGTERM);
  EXPECT_EQ(job.wait(30s).exit_code, 128 + SIGKILL);
  EXPECT_TRUE(processes_with(kMark).empty());
}

TEST(RunSignalsTest, EndsAJobThatIsBeingStartedAgain) {
  for (int delay_ms = 0; delay_ms < 60; delay_ms += 10) {
    auto job = start({"--num-instances", "2", "--max-restarts", "1000", "sh", "-c", "exit 1"});
    ASSERT_TRUE(job.wait_for("restart 1 of 1000"));
    job.wait_for_exit(std::chrono::milliseconds(delay_ms));
    job.signal(SIGTERM);
    const int code = job.wait(30s).exit_code;
    EXPECT_TRUE(code == 128 + SIGTERM || code == 1) << code;
    EXPECT_TRUE(processes_with(kMark).empty());
  }
}

TEST(RunSignalsTest, StaysDeafToAHangUpUnderNohup) {
  Subprocess job({"nohup", LOCKSTEP_BINARY, "run", "sh", "-c", "echo up; sleep 1; echo over"});
  ASSERT_TRUE(job.wait_for("up\n"));
  job.signal(SIGHUP);
  const auto result = job.wait(30s);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("over\n"));
}

TEST(RunSignalsTest, PassesUserSignalsOnToEveryInstance) {
  auto job = start({"--num-instances", "2", "sh", "-c",
                    "trap 'echo one' USR1; trap 'echo two; exit 0' USR2; echo up; while :; do "
                    "sleep 0.05; done"});
  ASSERT_TRUE(job.wait_for("[0] up\n") && job.wait_for("[1] up\n"));
  job.signal(SIGUSR1);
  ASSERT_TRUE(job.wait_for("[0] one\n") && job.wait_for("[1] one\n"));
  job.signal(SIGUSR2);
  EXPECT_EQ(job.wait(30s).exit_code, 0);
}

char state_of(pid_t pid) {
  const auto text = read_file("/proc/" + std::to_string(pid) + "/stat");
  return text.at(text.rfind(')') + 2);
}

TEST(RunSignalsTest, StopsAndContinuesTheInstancesWithItself) {
  const ScratchFolder folder;
  const auto fifo = folder.path() + "/fifo";
  run({"mkfifo", fifo});
  // Without a fork of its own: a shell that is stopped in the midst of one waits in another state.
  auto job = start({"sh", "-c", "echo $$; exec cat " + fifo});
  ASSERT_TRUE(job.wait_for("\n"));
  const pid_t instance = std::stoi(job.out());
  const auto both_stopped = [&] { return state_of(instance) == 'T' && state_of(job.pid()) == 'T'; };
  job.signal(SIGTSTP);
  EXPECT_TRUE(eventually(both_stopped, 20s));
  job.signal(SIGCONT);
  const auto both_wait = [&] { return state_of(instance) == 'S' && state_of(job.pid()) == 'S'; };
  EXPECT_TRUE(eventually(both_wait, 20s));
  run({"sh", "-c", "echo end > " + fifo});
  const auto result = job.wait();
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_THAT(result.out, HasSubstr("\nend\n"));
}

}  // namespace
}  // namespace lockstep::testing

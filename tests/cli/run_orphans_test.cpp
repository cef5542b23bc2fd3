// Kills the processes of a job, the launcher's own among them, and looks for survivors.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <random>
#include <thread>

#include "lockstep/launch/supervise/descendants.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/subprocess.h"

namespace lockstep::testing {
namespace {

/// A job whose every process can be found by a variable that it inherits.
class MarkedJob {
 public:
  explicit MarkedJob(const std::string& name, std::vector<std::string> arguments)
      : mark_(unique_mark(name)),
        job_(lockstep_command(std::move(arguments)), {.environment = {{"LOCKSTEP_TEST_MARK", mark_},
                                                                      {"TMPDIR", scratch_.path()},
                                                                      {"XDG_RUNTIME_DIR", ""}}}) {}

  Subprocess& launcher() { return job_; }
  std::vector<pid_t> processes() const { return processes_with("LOCKSTEP_TEST_MARK=" + mark_); }
  bool wait_until_gone(std::chrono::duration<double> deadline) {
    return eventually(
        [&] {
          job_.wait_for_exit(0s);  // reaps it, so that it is no longer listed
          return processes().empty();
        },
        deadline);
  }
  bool nothing_left_on_disk() const { return scratch_.is_empty(); }

 private:
  ScratchFolder scratch_;
  std::string mark_;
  Subprocess job_;
};

std::vector<std::string> stubborn_job() {
  return {"run", "--num-instances", "3", "--grace-period", "0.3", STUBBORN_TREE_BINARY};
}

pid_t parent_of(pid_t pid) {
  for (const auto& process : launch::descendants_of(::getpid())) {
    if (process.pid == pid) return process.parent;
  }
  return 0;
}

/// The child of the launcher that supervises the instances, or 0.
pid_t find_supervisor(MarkedJob& job) {
  for (const auto& process : launch::descendants_of(::getpid())) {
    if (process.parent == job.launcher().pid()) return process.pid;
  }
  return 0;
}

void wait_until_ready(MarkedJob& job) {
  for (const auto* line : {"[0] ready\n", "[1] ready\n", "[2] ready\n"}) {
    ASSERT_TRUE(job.launcher().wait_for(line));
  }
}

TEST(RunOrphansTest, NothingOutlivesTheLauncherWhenItIsKilled) {
  MarkedJob job("launcher", stubborn_job());
  wait_until_ready(job);
  EXPECT_TRUE(eventually([&] { return job.processes().size() >= 3U * 5 + 2; }, 20s));
  job.launcher().signal(SIGKILL);
  EXPECT_TRUE(job.wait_until_gone(20s));
  EXPECT_TRUE(eventually([&] { return job.nothing_left_on_disk(); }, 20s));
}

TEST(RunOrphansTest, NothingOutlivesTheSupervisorWhenItIsKilled) {
  MarkedJob job("supervisor", stubborn_job());
  wait_until_ready(job);
  const auto supervisor = find_supervisor(job);
  ASSERT_NE(supervisor, 0);
  ::kill(supervisor, SIGKILL);
  const auto result = job.launcher().wait(30s);
  EXPECT_EQ(result.exit_code, 128 + SIGKILL);
  EXPECT_NE(result.err.find("supervisor was killed by SIGKILL"), std::string::npos);
  EXPECT_TRUE(job.processes().empty());
  EXPECT_TRUE(job.nothing_left_on_disk());
}

TEST(RunOrphansTest, InstancesDieEvenWhenBothAreKilledAtOnce) {
  MarkedJob job("both", {"run", "--num-instances", "3", "sh", "-c", "echo ready; exec sleep 60"});
  wait_until_ready(job);
  std::vector<launch::ProcessEntry> own;
  for (const auto& process : launch::descendants_of(::getpid())) {
    if (process.pid == job.launcher().pid() || process.parent == job.launcher().pid()) {
      own.push_back(process);
    }
  }
  ASSERT_EQ(own.size(), 2U);
  launch::signal_all(own, SIGKILL);
  EXPECT_TRUE(job.wait_until_gone(20s));
}

/// The moments of a job's life in which the next test strikes.
enum class Moment { Starting, Ending, Restarting };

std::vector<std::string> job_for(Moment moment) {
  if (moment != Moment::Restarting) return stubborn_job();
  return {"run",  "--num-instances",
          "2",    "--grace-period",
          "0.02", "--max-restarts",
          "1000", "sh",
          "-c",   std::string(STUBBORN_TREE_BINARY) + " exit; exit 1"};
}

/// The process of a job that a round kills, or 0 if the job has ended. Two rounds in ten choose the
/// launcher and the supervisor. The other rounds choose any process.
pid_t choose_victim(MarkedJob& job, int round, std::mt19937& random) {
  if (round % 10 == 0) return job.launcher().wait_for_exit(0s) ? 0 : job.launcher().pid();
  if (round % 10 == 5) {
    pid_t supervisor = 0;
    EXPECT_TRUE(eventually(
        [&] {
          supervisor = find_supervisor(job);
          return supervisor != 0 || job.launcher().wait_for_exit(0s);
        },
        20s));
    return supervisor;
  }
  const auto processes = job.processes();
  return processes.empty() ? 0 : processes[random() % processes.size()];
}

/// A hundred jobs. In each of them, a process is killed at a random moment.
TEST(RunOrphansTest, NothingOutlivesAHundredRoundsOfRandomKilling) {
  std::mt19937 random(20221115);
  int launchers_hit = 0;
  for (int round = 0; round < 100; ++round) {
    const auto moment = static_cast<Moment>(round % 3);
    MarkedJob job(fmt::format("round{}", round), job_for(moment));
    if (moment == Moment::Ending) {
      wait_until_ready(job);
      job.launcher().signal(SIGTERM);
    }
    const int longest_us = moment == Moment::Starting ? 30'000 : 350'000;
    std::this_thread::sleep_for(std::chrono::microseconds(random() % longest_us));
    const auto victim = choose_victim(job, round, random);
    const bool was_ours = victim != 0 && (victim == job.launcher().pid() ||
                                          parent_of(victim) == job.launcher().pid());
    launchers_hit += was_ours ? 1 : 0;
    if (victim != 0) ::kill(victim, SIGKILL);
    // If an instance had started the process, the job may go on, so the launcher is ended here. If
    // the launcher or the supervisor was killed, the other one must end the job alone.
    if (!was_ours && !job.launcher().wait_for_exit(20ms)) {
      job.launcher().signal(random() % 2 == 0 ? SIGKILL : SIGTERM);
    }
    ASSERT_TRUE(job.wait_until_gone(30s)) << "round " << round;
    ASSERT_TRUE(eventually([&] { return job.nothing_left_on_disk(); }, 20s)) << "round " << round;
  }
  // 20 rounds choose the launcher or the supervisor. In 6 of them, the job may already have ended.
  EXPECT_GE(launchers_hit, 14);
}

}  // namespace
}  // namespace lockstep::testing

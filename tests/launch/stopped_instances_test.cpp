#include "lockstep/launch/supervise/stopped_instances.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>

#include "lockstep/launch/supervise/fault_injector.h"
#include "tests/support/recording_sink.h"
#include "tests/support/subprocess.h"

namespace lockstep::launch {
namespace {

using testing::eventually;
using testing::RecordingSink;
using namespace std::chrono_literals;

/// Children that do nothing, as instances.
class StoppedInstancesTest : public ::testing::Test {
 protected:
  void start(int count) {
    for (int i = 0; i < count; ++i) {
      const pid_t pid = ::fork();
      ASSERT_GE(pid, 0);
      if (pid == 0) {
        while (true) ::pause();
      }
      // A terminal's signals do not stop the processes of a group that nobody watches over, as that
      // of a test in the background may be.
      ::setpgid(pid, pid);
      using events::Stream;
      constexpr auto kMode = OutputStream::Mode::Lines;
      instances_.push_back({.instance = i,
                            .host = "a",
                            .pid = pid,
                            .started = InstanceProcess::Clock::now(),
                            .ended = {},
                            .status = std::nullopt,
                            .stopped_since = std::nullopt,
                            .given_up_after = std::nullopt,
                            .standard_output = {i, Stream::Stdout, kMode, UniqueFd(), UniqueFd()},
                            .standard_error = {i, Stream::Stderr, kMode, UniqueFd(), UniqueFd()}});
    }
  }

  ~StoppedInstancesTest() override {
    for (const auto& process : instances_) {
      ::kill(process.pid, SIGKILL);
      ::waitpid(process.pid, nullptr, 0);
    }
  }

  bool becomes_stopped(std::size_t index, bool stopped) {
    return eventually(
        [&] {
          note_stops(instances_, sink_);
          return instances_[index].stopped_since.has_value() == stopped;
        },
        10s);
  }

  int signal_that_ended(std::size_t index) {
    siginfo_t info{};
    ::waitid(P_PID, static_cast<id_t>(instances_[index].pid), &info, WEXITED | WNOWAIT);
    return info.si_status;
  }

  std::vector<InstanceProcess> instances_;
  RecordingSink sink_;
};

TEST_F(StoppedInstancesTest, BeginsTheTimeAnewWhenOneIsContinued) {
  start(2);
  EXPECT_EQ(next_overdue_stop(instances_, 10s), std::nullopt);
  ::kill(instances_[1].pid, SIGSTOP);
  ASSERT_TRUE(becomes_stopped(1, true));
  EXPECT_FALSE(instances_[0].stopped_since);
  const auto first = *next_overdue_stop(instances_, 10s);
  EXPECT_EQ(first, *instances_[1].stopped_since + 10s);
  ::kill(instances_[1].pid, SIGCONT);
  ASSERT_TRUE(becomes_stopped(1, false));
  EXPECT_EQ(next_overdue_stop(instances_, 10s), std::nullopt);
  ::kill(instances_[1].pid, SIGSTOP);
  ASSERT_TRUE(becomes_stopped(1, true));
  EXPECT_GT(*next_overdue_stop(instances_, 10s), first);
}

TEST_F(StoppedInstancesTest, KillsOnceWhoHasBeenStoppedForTooLong) {
  start(2);
  ::kill(instances_[0].pid, SIGSTOP);
  ASSERT_TRUE(becomes_stopped(0, true));
  give_up_stopped(instances_, 100s, 7, sink_);
  EXPECT_TRUE(sink_.stalled.empty());
  give_up_stopped(instances_, 0s, 7, sink_);
  give_up_stopped(instances_, 0s, 7, sink_);
  ASSERT_EQ(sink_.stalled.size(), 1U);
  EXPECT_EQ(sink_.stalled[0].instance, 0);
  EXPECT_EQ(sink_.stalled[0].step, 7);
  EXPECT_EQ(signal_that_ended(0), SIGKILL);
  EXPECT_TRUE(instances_[0].given_up_after);
  EXPECT_FALSE(instances_[1].given_up_after);
}

TEST_F(StoppedInstancesTest, WarnsOfThoseThatTheTerminalStops) {
  start(1);
  ::kill(instances_[0].pid, SIGTTIN);
  ASSERT_TRUE(becomes_stopped(0, true));
  ASSERT_EQ(sink_.warnings.size(), 1U);
  EXPECT_NE(sink_.warnings[0].find("it uses the terminal"), std::string::npos);
}

TEST_F(StoppedInstancesTest, AFaultThatSlowsEndsAfterItsTime) {
  start(1);
  using Clock = FaultInjector::Clock;
  const Clock::time_point begin{};
  FaultInjector faults({.seed = 5, .kinds = {FaultKind::Slow}}, begin);
  const auto due = faults.next_time();
  faults.act(due - 1ms, instances_, {}, sink_);
  EXPECT_TRUE(sink_.faults.empty());
  faults.act(due, instances_, 3, sink_);
  ASSERT_EQ(sink_.faults.size(), 1U);
  EXPECT_EQ(sink_.faults[0].kind, "slow");
  EXPECT_EQ(sink_.faults[0].signal, SIGSTOP);
  EXPECT_EQ(sink_.faults[0].step, 3);
  ASSERT_TRUE(becomes_stopped(0, true));
  faults.act(due + std::chrono::duration_cast<Clock::duration>(sink_.faults[0].duration) + 1ms,
             instances_, {}, sink_);
  EXPECT_TRUE(becomes_stopped(0, false));
}

TEST_F(StoppedInstancesTest, AFaultWaitsForSomebodyToSufferIt) {
  using Clock = FaultInjector::Clock;
  FaultInjector faults({.seed = 5, .kinds = {FaultKind::Kill}}, Clock::time_point{});
  const auto late = faults.next_time() + 100s;
  faults.act(late, instances_, {}, sink_);
  EXPECT_TRUE(sink_.faults.empty());
  start(1);
  faults.act(late, instances_, {}, sink_);
  ASSERT_EQ(sink_.faults.size(), 1U);
  EXPECT_EQ(signal_that_ended(0), SIGKILL);
  EXPECT_GT(faults.next_time(), late);
}

}  // namespace
}  // namespace lockstep::launch

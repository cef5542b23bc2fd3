#include "lockstep/launch/supervise/death_watch.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <random>

namespace lockstep::launch {
namespace {

/// A child that waits to be killed.
pid_t make_sleeper() {
  const pid_t pid = ::fork();
  if (pid == 0) {
    while (true) ::pause();
  }
  return pid;
}

/// Returns once the child is dead; it stays to be reaped.
void kill_and_wait(pid_t pid, int signal) {
  ::kill(pid, signal);
  siginfo_t info{};
  ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT);
}

TEST(DeathWatchTest, TellsDeathsInTheirOrderNotInThatOfBirth) {
  std::mt19937 random(3);
  for (int round = 0; round < 10; ++round) {
    DeathWatch watch;
    std::vector<pid_t> order;
    for (int i = 0; i < 8; ++i) {
      order.push_back(make_sleeper());
      watch.add(order.back());
    }
    std::shuffle(order.begin(), order.end(), random);
    for (const pid_t pid : order) kill_and_wait(pid, SIGKILL);
    const auto deaths = watch.take();
    ASSERT_EQ(deaths.size(), order.size());
    for (std::size_t i = 0; i < order.size(); ++i) {
      EXPECT_EQ(deaths[i].pid, order[i]);
      EXPECT_EQ(deaths[i].status, events::ExitStatus{.signal = SIGKILL});
    }
    EXPECT_FALSE(watch.reap_others());
  }
}

TEST(DeathWatchTest, ReapsOthersButLeavesTheWatchedForTaking) {
  DeathWatch watch;
  const pid_t watched = make_sleeper();
  watch.add(watched);
  const pid_t other = make_sleeper();
  kill_and_wait(other, SIGTERM);
  EXPECT_TRUE(watch.reap_others());
  EXPECT_EQ(::waitpid(other, nullptr, WNOHANG), -1);
  kill_and_wait(watched, SIGTERM);
  EXPECT_TRUE(watch.reap_others());
  pollfd fd{watch.fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&fd, 1, 0), 1);
  EXPECT_EQ(watch.take().size(), 1U);
  EXPECT_EQ(::poll(&fd, 1, 0), 0);
}

}  // namespace
}  // namespace lockstep::launch

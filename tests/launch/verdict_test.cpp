#include "lockstep/launch/supervise/verdict.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace lockstep::launch {
namespace {

constexpr events::ExitStatus kSuccess{};
constexpr events::ExitStatus kPeerLost{.code = 7};

TEST(VerdictTest, NamesTheFirstThatFailed) {
  Verdict verdict;
  verdict.add(3, kSuccess);
  EXPECT_EQ(verdict.cause(), std::nullopt);
  verdict.add(2, {.code = 3});
  verdict.add(1, {.code = 4});
  EXPECT_EQ(verdict.cause(), 2);
}

TEST(VerdictTest, WhoWasAskedToStopHasNotFailed) {
  Verdict verdict;
  verdict.add(0, {.code = 75});
  EXPECT_EQ(verdict.best_guess(), std::nullopt);
  EXPECT_FALSE(verdict.waiting_for_cause());
  verdict.add(1, {.code = 3});
  EXPECT_EQ(verdict.cause(), 1);
}

TEST(VerdictTest, WaitsForTheCauseWhenAVictimIsSeenFirst) {
  Verdict verdict;
  verdict.add(0, kPeerLost);
  EXPECT_TRUE(verdict.waiting_for_cause());
  EXPECT_EQ(verdict.cause(), std::nullopt);
  verdict.add(1, {.signal = SIGKILL});
  EXPECT_EQ(verdict.cause(), 1);
  EXPECT_FALSE(verdict.waiting_for_cause());
}

TEST(VerdictTest, BlamesTheFirstVictimWhenNobodyElseFailed) {
  Verdict verdict;
  EXPECT_EQ(verdict.best_guess(), std::nullopt);
  verdict.add(2, kPeerLost);
  verdict.add(0, kPeerLost);
  EXPECT_EQ(verdict.best_guess(), 2);
}

TEST(ExitStatusTest, CountsSignalsAsAShellDoes) {
  EXPECT_EQ((events::ExitStatus{.signal = SIGKILL}).shell_code(), 137);
  EXPECT_EQ((events::ExitStatus{.code = 3}).shell_code(), 3);
}

}  // namespace
}  // namespace lockstep::launch

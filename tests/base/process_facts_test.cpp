#include "lockstep/base/process_facts.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <vector>

namespace lockstep {
namespace {

TEST(ProcessFactsTest, TheProcessIsYoungAndGrowsOlder) {
  const auto first = process_age();
  EXPECT_GE(first, -0.02);  // the system counts hundredths
  EXPECT_LT(first, 60);
  EXPECT_GE(process_age(), first);
}

TEST(ProcessFactsTest, TellsOneProcessFromALaterOneOfItsNumber) {
  const auto first = process_counters(::getpid());
  ASSERT_TRUE(first.has_value());
  EXPECT_EQ(first->state, 'R');
  EXPECT_FALSE(first->is_stopped());
  const auto child = ::fork();
  if (child == 0) {
    while (true) ::pause();
  }
  EXPECT_GE(process_counters(child)->start_ticks, first->start_ticks);
  ::kill(child, SIGKILL);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(process_counters(child).has_value());  // it has ended, though nobody has reaped it
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(process_counters(child).has_value());
  EXPECT_FALSE(private_memory_of(child).has_value());
}

TEST(ProcessFactsTest, CountsTheTimeThatAProcessComputes) {
  const auto before = process_counters(::getpid())->cpu_ticks;
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (process_counters(::getpid())->cpu_ticks < before + 3) {
    ASSERT_LT(std::chrono::steady_clock::now(), end);
  }
  EXPECT_GT(ticks_per_second(), 0);
}

TEST(ProcessFactsTest, KnowsUsersByNameOrElseByNumber) {
  EXPECT_EQ(user_name(0), "root");
  EXPECT_EQ(user_name(4'000'000'001U), "4000000001");
}

TEST(ProcessFactsTest, CountsMemoryThatIsTouched) {
  constexpr std::size_t kBytes = std::size_t{64} << 20;
  const auto before = private_memory();
  std::vector<char> touched(kBytes);
  std::memset(touched.data(), 1, kBytes);
  EXPECT_GE(private_memory() - before, static_cast<std::int64_t>(kBytes) / 2);
  EXPECT_EQ(touched.back(), 1);
}

TEST(ProcessFactsTest, TheMachineCanGiveMemoryAndLessThanItHas) {
  EXPECT_GT(available_memory(), std::uint64_t{1} << 20);
  const auto pages = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES));
  EXPECT_LT(available_memory(), pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
}

}  // namespace
}  // namespace lockstep

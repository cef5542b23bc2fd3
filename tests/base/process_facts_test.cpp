#include "lockstep/base/process_facts.h"

#include <gtest/gtest.h>
#include <unistd.h>

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

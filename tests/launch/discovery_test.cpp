#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <unistd.h>

#include <filesystem>

#include "lockstep/base/error.h"
#include "lockstep/launch/discover/host_discovery.h"
#include "lockstep/launch/discover/machine_discovery.h"
#include "tests/support/scratch_folder.h"

namespace lockstep::launch {
namespace {

TEST(MachineDiscoveryTest, FindsTheCoresThatThisProcessMayUse) {
  const auto machine = discover_machine();
  cpu_set_t allowed;
  ASSERT_EQ(::sched_getaffinity(0, sizeof allowed, &allowed), 0);
  int cpus = 0;
  for (const auto& core : machine.cores) {
    cpus += static_cast<int>(core.cpus.size());
    for (const int cpu : core.cpus) EXPECT_TRUE(CPU_ISSET(static_cast<std::size_t>(cpu), &allowed));
  }
  EXPECT_EQ(cpus, CPU_COUNT(&allowed));
  EXPECT_GT(machine.memory_bytes, std::int64_t{64} << 20);
}

TEST(MachineDiscoveryTest, SeesOnlyWhatTasksetLeaves) {
  cpu_set_t before;
  ASSERT_EQ(::sched_getaffinity(0, sizeof before, &before), 0);
  std::size_t first = 0;
  while (!CPU_ISSET(first, &before)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  ASSERT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
  const auto machine = discover_machine();
  ::sched_setaffinity(0, sizeof before, &before);
  ASSERT_EQ(machine.cores.size(), 1U);
  EXPECT_THAT(machine.cores[0].cpus, ::testing::ElementsAre(static_cast<int>(first)));
}

TEST(CpuQuotaTest, TakesTheSmallestLimitOnTheWayUp) {
  const testing::ScratchFolder folder;
  std::filesystem::create_directories(folder.path() + "/kube/pod/box");
  folder.write("kube/cpu.max", "max 100000\n");
  folder.write("kube/pod/cpu.max", "250000 100000\n");
  folder.write("kube/pod/box/cpu.max", "400000 100000\n");
  EXPECT_EQ(read_cpu_quota(folder.path(), "/kube/pod/box"), 2.5);
  EXPECT_EQ(read_cpu_quota(folder.path(), "/kube"), std::nullopt);
  EXPECT_EQ(read_cpu_quota(folder.path(), "/"), std::nullopt);
  EXPECT_EQ(read_cpu_quota("/nowhere", "/a/b"), std::nullopt);
}

TEST(HostDiscoveryTest, KnowsThisMachineByItsNames) {
  EXPECT_TRUE(is_this_host("localhost"));
  EXPECT_TRUE(is_this_host("127.0.0.1"));
  EXPECT_TRUE(is_this_host(this_host()));
  EXPECT_FALSE(is_this_host("some-other-machine"));
}

TEST(HostDiscoveryTest, TakesTheListTheFileOrThisMachine) {
  const testing::ScratchFolder folder;
  const auto file = folder.write("hosts", "c\nd:2\n");
  EXPECT_EQ(discover_hosts("a,b", "").size(), 2U);
  EXPECT_EQ(discover_hosts("", file).back().name, "d");
  EXPECT_EQ(discover_hosts("", "").front().name, this_host());
}

TEST(HostDiscoveryTest, RefusesBothAndAFileThatIsNotThere) {
  EXPECT_THROW(discover_hosts("a", "b"), Error);
  try {
    discover_hosts("", "/no/such/hosts");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Io);
    EXPECT_STREQ(error.what(), "read /no/such/hosts: No such file or directory");
  }
}

}  // namespace
}  // namespace lockstep::launch

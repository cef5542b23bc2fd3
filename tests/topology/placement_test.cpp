#include "lockstep/topology/placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "lockstep/base/error.h"
#include "lockstep/topology/machine.h"

namespace lockstep::topology {
namespace {

using ::testing::HasSubstr;

/// "instance host:local replicas devices", a line each.
std::string to_table(const Placement& placement, int devices = 1'000'000) {
  std::string text;
  for (const auto& place : placement.instances) {
    text += fmt::format("{} {}:{} replicas={}+{} devices={}\n", place.instance,
                        placement.hosts[static_cast<std::size_t>(place.host)].name,
                        place.local_instance, place.replicas.first, place.replicas.count,
                        fmt::join(device_ids(placement, place.instance, devices), ","));
  }
  return text;
}

TEST(PlaceTest, PutsTheTutorialsJobOnOneHost) {
  EXPECT_EQ(to_table(place({{"a", {}}}, {.replicas = 8, .instances = 4, .devices_per_replica = 2})),
            "0 a:0 replicas=0+2 devices=0,1,2,3\n"
            "1 a:1 replicas=2+2 devices=4,5,6,7\n"
            "2 a:2 replicas=4+2 devices=8,9,10,11\n"
            "3 a:3 replicas=6+2 devices=12,13,14,15\n");
}

TEST(PlaceTest, KeepsTheStagesOfOneReplicaOnOneHost) {
  EXPECT_EQ(to_table(place({{"a", 2}, {"b", 2}},
                           {.replicas = 2, .instances = 2, .devices_per_replica = 2})),
            "0 a:0 replicas=0+1 devices=0,1\n"
            "1 b:0 replicas=1+1 devices=0,1\n");
}

TEST(PlaceTest, LetsEarlierInstancesCarryOneMore) {
  EXPECT_EQ(to_table(place({{"a", {}}}, {.replicas = 8, .instances = 3})),
            "0 a:0 replicas=0+3 devices=0,1,2\n"
            "1 a:1 replicas=3+3 devices=3,4,5\n"
            "2 a:2 replicas=6+2 devices=6,7\n");
}

TEST(PlaceTest, DividesInstancesEvenlyWithinTheSlots) {
  EXPECT_EQ(to_table(place({{"a", 1}, {"b", {}}, {"c", {}}}, {.replicas = 6, .instances = 6})),
            "0 a:0 replicas=0+1 devices=0\n"
            "1 b:0 replicas=1+1 devices=0\n"
            "2 b:1 replicas=2+1 devices=1\n"
            "3 b:2 replicas=3+1 devices=2\n"
            "4 c:0 replicas=4+1 devices=0\n"
            "5 c:1 replicas=5+1 devices=1\n");
}

TEST(PlaceTest, SharesDevicesRoundRobinWhereThereAreTooFew) {
  EXPECT_EQ(
      to_table(place({{"a", {}}}, {.replicas = 4, .instances = 2, .devices_per_replica = 2}), 3),
      "0 a:0 replicas=0+2 devices=0,1,2,0\n"
      "1 a:1 replicas=2+2 devices=1,2,0,1\n");
}

TEST(PlaceTest, LeavesHostsEmptyThatAreNotNeeded) {
  const auto placement = place({{"a", {}}, {"b", {}}}, {.replicas = 3, .instances = 1});
  EXPECT_EQ(placement.stages_on_host(0), 3);
  EXPECT_TRUE(placement.on_host(1).empty());
}

struct BadShape {
  JobShape shape;
  std::vector<Host> hosts;
  const char* complaint;
  friend std::ostream& operator<<(std::ostream& out, const BadShape& bad) {
    return out << bad.complaint;
  }
};

class BadShapeTest : public ::testing::TestWithParam<BadShape> {};

TEST_P(BadShapeTest, IsRefusedWithItsNumbers) {
  try {
    place(GetParam().hosts, GetParam().shape);
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::Options);
    EXPECT_THAT(error.what(), HasSubstr(GetParam().complaint));
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BadShapeTest,
    ::testing::Values(BadShape{{3, 4, 1},
                               {{"a", {}}},
                               "4 instances need a replica each, but --num-replicas is 3"},
                      BadShape{{0, 1, 1}, {{"a", {}}}, "--num-replicas is 0, expected 1 to"},
                      BadShape{{1, -2, 1}, {{"a", {}}}, "--num-instances is -2"},
                      BadShape{{1, 1, 0}, {{"a", {}}}, "--devices-per-replica is 0"},
                      BadShape{{2'000'000, 1, 1}, {{"a", {}}}, "--num-replicas is 2000000"},
                      BadShape{{65536, 1, 65536},
                               {{"a", {}}},
                               "65536 replicas of 65536 devices each are more than"},
                      BadShape{{5, 5, 1},
                               {{"a", 2}, {"b", 1}},
                               "5 instances were asked for, but the hosts have 3 slots"},
                      BadShape{{1, 1, 1}, {}, "expected at least one host"}));

/// Random shapes, always the same ones.
class RandomPlacements {
 public:
  struct Case {
    std::vector<Host> hosts;
    JobShape shape;
  };

  Case next() {
    Case made;
    made.shape.instances = number(1, 40);
    made.shape.replicas = made.shape.instances + number(0, 100);
    made.shape.devices_per_replica = number(1, 4);
    const int hosts = number(1, 6);
    for (int i = 0; i < hosts; ++i) {
      Host host{fmt::format("h{}", i), {}};
      if (number(0, 1) == 1) host.slots = made.shape.instances / hosts + number(1, 3);
      made.hosts.push_back(host);
    }
    return made;
  }

 private:
  int number(int least, int most) {
    return std::uniform_int_distribution<int>(least, most)(random_);
  }
  std::mt19937 random_{2022};
};

TEST(PlacePropertyTest, CarriesEveryReplicaOnceContiguouslyAndBalanced) {
  RandomPlacements placements;
  for (int round = 0; round < 2000; ++round) {
    const auto [hosts, shape] = placements.next();
    const auto placement = place(hosts, shape);
    ASSERT_EQ(placement.instances.size(), static_cast<std::size_t>(shape.instances));
    int next_replica = 0;
    for (const auto& instance : placement.instances) {
      EXPECT_EQ(instance.replicas.first, next_replica);
      next_replica += instance.replicas.count;
      EXPECT_GE(instance.replicas.count, shape.replicas / shape.instances);
      EXPECT_LE(instance.replicas.count, (shape.replicas + shape.instances - 1) / shape.instances);
    }
    EXPECT_EQ(next_replica, shape.replicas);
  }
}

TEST(PlacePropertyTest, KeepsHostsContiguousWithinSlotsAndBalanced) {
  RandomPlacements placements;
  for (int round = 0; round < 2000; ++round) {
    const auto [hosts, shape] = placements.next();
    const auto placement = place(hosts, shape);
    std::vector<int> counts(hosts.size(), 0);
    int last_host = 0;
    for (const auto& instance : placement.instances) {
      EXPECT_GE(instance.host, last_host);
      last_host = instance.host;
      EXPECT_EQ(instance.local_instance, counts[static_cast<std::size_t>(instance.host)]++);
    }
    const int most = *std::max_element(counts.begin(), counts.end());
    for (std::size_t host = 0; host < hosts.size(); ++host) {
      const bool is_full = hosts[host].slots && counts[host] == *hosts[host].slots;
      EXPECT_LE(counts[host], hosts[host].slots.value_or(most));
      EXPECT_TRUE(is_full || counts[host] >= most - 1) << "host " << host;
    }
  }
}

TEST(PlacePropertyTest, GivesTheStagesOfAHostDifferentDevicesWhereThereAreEnough) {
  RandomPlacements placements;
  for (int round = 0; round < 500; ++round) {
    const auto [hosts, shape] = placements.next();
    const auto placement = place(hosts, shape);
    for (int host = 0; host < static_cast<int>(hosts.size()); ++host) {
      std::vector<int> used;
      for (const auto& instance : placement.on_host(host)) {
        const auto ids = device_ids(placement, instance.instance, placement.stages_on_host(host));
        used.insert(used.end(), ids.begin(), ids.end());
      }
      for (std::size_t i = 0; i < used.size(); ++i) EXPECT_EQ(used[i], static_cast<int>(i));
    }
  }
}

}  // namespace
}  // namespace lockstep::topology

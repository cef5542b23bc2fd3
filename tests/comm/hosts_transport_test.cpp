#include "lockstep/comm/hosts/hosts_transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <mutex>
#include <thread>

#include "lockstep/base/error.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/host/member.h"
#include "lockstep/comm/hosts/host_wait.h"
#include "lockstep/comm/ordered_reduction.h"
#include "tests/comm/collective_checks.h"
#include "tests/comm/hosts_group.h"
#include "tests/support/errors.h"

namespace lockstep::comm {
namespace {

using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;
using testing::HostsGroup;
using testing::run_hosts;

struct Case {
  std::string name;
  HostsGroup::Layout layout;
  friend void PrintTo(const Case& value, std::ostream* out) {
    *out << testing::to_string(value.layout);
  }
};

class HostsCollectiveTest : public ::testing::TestWithParam<Case> {};

TEST_P(HostsCollectiveTest, GivesTheReferencesBitsForEachOperationAndType) {
  run_hosts(GetParam().layout, [](Communicator& communicator) {
    for (auto collective : testing::all_collectives()) {
      testing::check_collective(communicator, collective);
      collective.root = communicator.size() - 1;
      if (collective.kind == OperationKind::Broadcast || collective.kind == OperationKind::Gather ||
          collective.kind == OperationKind::Scatter) {
        testing::check_collective(communicator, collective);
      }
    }
  });
}

TEST_P(HostsCollectiveTest, GivesTheSameBitsForTheSameLeavesHoweverTheyAreDealtOut) {
  run_hosts(GetParam().layout, [](Communicator& communicator) {
    for (const auto type : {DataType::F16, DataType::BF16, DataType::F32, DataType::F64}) {
      for (const auto op : {ReduceOp::Sum, ReduceOp::Mean, ReduceOp::Product}) {
        for (const int leaves : {8, 9, 13, 16}) {
          testing::check_leaves(communicator, type, op, 30001, leaves);
        }
      }
    }
  });
}

TEST_P(HostsCollectiveTest, KeepsUpInAMixtureOfAll) {
  run_hosts(GetParam().layout,
            [](Communicator& communicator) { testing::check_mixture(communicator, 200, 5); });
}

TEST_P(HostsCollectiveTest, CombinesNodesBetweenLeaders) {
  run_hosts(GetParam().layout, [](Communicator& communicator) {
    if (!communicator.is_leader()) return;
    auto& leaders = communicator.leaders();
    for (const auto type : {DataType::BF16, DataType::F32, DataType::F64, DataType::I32}) {
      // The last takes several chunks of slices; many nodes do not fit into the first message.
      for (const std::int64_t count : {0, 1, 300, 20000, 1800001}) {
        for (const int leaves : {1, 3, 8, 70}) {
          if (count > 20000 && (type != DataType::F32 || leaves > 8)) continue;
          testing::check_nodes(leaders, type, count, leaves);
        }
      }
    }
  });
}

TEST_P(HostsCollectiveTest, MovesMoreThanAChunk) {
  run_hosts(GetParam().layout, [](Communicator& communicator) {
    for (int root = 0; root < communicator.size(); ++root) {
      testing::check_collective(
          communicator,
          {.kind = OperationKind::Broadcast, .count = 1500001, .root = root, .seed = 3});
    }
    for (const auto kind :
         {OperationKind::AllReduce, OperationKind::ReduceScatter, OperationKind::AllGather,
          OperationKind::Gather, OperationKind::Scatter}) {
      testing::check_collective(communicator, {.kind = kind, .count = 1300001});
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Layouts, HostsCollectiveTest,
                         ::testing::Values(Case{"OneAndOne", {{0}, {1}}},
                                           Case{"TwoAndTwo", {{0, 1}, {2, 3}}},
                                           Case{"OneAndThree", {{0}, {1, 2, 3}}},
                                           Case{"ThreeTimesTwo", {{0, 1}, {2, 3}, {4, 5}}},
                                           Case{"Interleaved", {{0, 2}, {1, 3}}},
                                           Case{"InterleavedUnevenly", {{0, 3, 4}, {1}, {2, 5}}}),
                         [](const auto& parameter) { return parameter.param.name; });

TEST(HostsTransportTest, ReducesManyBuffersOfSeveralTypesAsOneOperation) {
  run_hosts({{0, 1}, {2}}, [](Communicator& communicator) {
    const auto rank = static_cast<float>(communicator.rank());
    std::vector<float> first(5, rank);
    std::vector<double> second(700000, 1.5);
    std::vector<std::int32_t> third{};
    std::vector<std::uint8_t> fourth(3, 7);
    std::vector<float> fifth(100000, 1.0F);
    const std::vector<Buffer> buffers{buffer_of(first), buffer_of(second), buffer_of(third),
                                      buffer_of(fourth), buffer_of(fifth)};
    communicator.all_reduce(buffers, ReduceOp::Sum);
    EXPECT_EQ(first, std::vector<float>(5, 3.0F));
    EXPECT_EQ(second, std::vector<double>(700000, 4.5));
    EXPECT_EQ(fourth, std::vector<std::uint8_t>(3, 21));
    EXPECT_EQ(fifth, std::vector<float>(100000, 3.0F));
    communicator.all_reduce(std::span<const Buffer>{});
  });
}

TEST(HostsTransportTest, SaysWhichInstancesAreOnWhichHost) {
  run_hosts({{0, 3}, {1, 2}}, [](Communicator& communicator) {
    EXPECT_THAT(communicator.hosts(), ElementsAre(0, 1, 1, 0));
    EXPECT_EQ(communicator.num_hosts(), 2);
    EXPECT_EQ(communicator.is_leader(), communicator.rank() < 2);
    // In this group the other host comes first.
    if (communicator.rank() >= 2) {
      auto& group = communicator.group({2, 3});
      EXPECT_THAT(group.hosts(), ElementsAre(0, 1));
      std::vector<int> values{group.rank() + 1};
      group.all_reduce(buffer_of(values));
      EXPECT_EQ(values.front(), 3);
    }
    communicator.barrier();
  });
}

TEST(HostsTransportTest, SharesMemoryOnEachHostOnly) {
  run_hosts({{0, 1}, {2, 3}}, [](Communicator& communicator) {
    const auto error = error_of([&] { communicator.allocate(8, "weights"); });
    EXPECT_EQ(error.kind(), ErrorKind::Options);
    EXPECT_STREQ(error.what(),
                 "allocate \"weights\": expected instances of one host, found those of 2 hosts");
    EXPECT_EQ(error.hint(), "Communicator::on_this_host()");
    EXPECT_STREQ(error_of([&] { communicator.keep(8, "weights", 1); }).what(),
                 "keep \"weights\": expected instances of one host, found those of 2 hosts");
    auto& here = communicator.on_this_host();
    const auto memory = here.allocate(2 * sizeof(int), "numbers");
    auto* numbers = reinterpret_cast<int*>(memory.data());
    numbers[here.rank()] = communicator.rank() + 1;
    here.barrier();
    EXPECT_EQ(numbers[0] + numbers[1], communicator.rank() < 2 ? 3 : 7);
    communicator.barrier();
  });
}

TEST(HostsTransportTest, GroupsOfOneParentAndNestedOnesAreUsedSideBySide) {
  run_hosts({{0, 1}, {2, 3}}, [](Communicator& communicator) {
    if (!communicator.is_leader()) return;
    auto& leaders = communicator.leaders();
    auto& lane = leaders.group({0, 2});
    std::vector<float> first(100000, 1.0F);
    std::vector<float> second(100000, 2.0F);
    for (int round = 0; round < 20; ++round) {
      auto work = lane.async().all_reduce(buffer_of(first), ReduceOp::Max);
      leaders.all_reduce(buffer_of(second), ReduceOp::Max);
      work.wait();
    }
    EXPECT_EQ(first.back() + second.back(), 3.0F);
  });
}

struct HostsDisagreement {
  std::string name;
  std::function<void(Communicator&)> first;
  std::function<void(Communicator&)> other;
  std::string expected;
  friend void PrintTo(const HostsDisagreement& value, std::ostream* out) { *out << value.name; }
};

class HostsDisagreementTest : public ::testing::TestWithParam<HostsDisagreement> {};

TEST_P(HostsDisagreementTest, IsAnErrorOnEveryInstanceThatNamesBothSides) {
  std::mutex mutex;
  std::vector<std::string> messages;
  try {
    run_hosts({{0, 1}, {2, 3}, {4}}, [&](Communicator& communicator) {
      communicator.barrier();
      const bool is_other =
          communicator.hosts()[static_cast<std::size_t>(communicator.rank())] == 1;
      const auto error =
          error_of([&] { (is_other ? GetParam().other : GetParam().first)(communicator); });
      EXPECT_EQ(error.kind(), ErrorKind::Options);
      const std::lock_guard lock(mutex);
      messages.emplace_back(error.what());
      EXPECT_THROW(communicator.barrier(), Error) << "the job has failed";
    });
  } catch (const Error&) {
  }
  ASSERT_EQ(messages.size(), 5U);
  for (const auto& message : messages) {
    EXPECT_THAT(message, HasSubstr("instances disagree: instance 0 (host a, pid "));
    EXPECT_THAT(message, HasSubstr("instance 2 (host b, pid "));
    EXPECT_THAT(message, HasSubstr(GetParam().expected));
  }
}

void reduce_on_hosts(Communicator& communicator, int count, ReduceOp op = ReduceOp::Sum) {
  std::vector<float> values(static_cast<std::size_t>(count));
  communicator.all_reduce(buffer_of(values), op);
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, HostsDisagreementTest,
    ::testing::Values(HostsDisagreement{"operation", [](auto& c) { c.barrier(); },
                                        [](auto& c) { reduce_on_hosts(c, 7); },
                                        "called all_reduce(sum, 7 f32)"},
                      HostsDisagreement{"less", [](auto& c) { reduce_on_hosts(c, 1000); },
                                        [](auto& c) { reduce_on_hosts(c, 9999999); },
                                        ") called all_reduce(sum, 9999999 f32)"},
                      HostsDisagreement{"more", [](auto& c) { reduce_on_hosts(c, 9999999); },
                                        [](auto& c) { reduce_on_hosts(c, 1000); },
                                        ") called all_reduce(sum, 9999999 f32)"},
                      HostsDisagreement{"nothing", [](auto& c) { reduce_on_hosts(c, 9999999); },
                                        [](auto& c) { reduce_on_hosts(c, 0); },
                                        ") called all_reduce(sum, 0 f32)"},
                      HostsDisagreement{"operator", [](auto& c) { reduce_on_hosts(c, 7); },
                                        [](auto& c) { reduce_on_hosts(c, 7, ReduceOp::Max); },
                                        "called all_reduce(max, 7 f32)"}),
    [](const auto& parameter) { return parameter.param.name; });

/// One instance on each of two hosts, of which the other has left long ago.
struct LeftHost {
  LeftHost() {
    const auto then = host::Clock::now() - std::chrono::seconds(10);
    memory->header().hosts[1].left_ns = then.time_since_epoch().count();
    wait.begin("all_reduce", 1);
  }
  std::shared_ptr<host::JobMemory> memory =
      host::JobMemory::create({.num_instances = 2, .num_local_instances = 1, .host = "a"});
  host::Member member{memory, 0, {}};
  hosts::HostMap map{{{"a", {0}}, {"b", {1}}}};
  hosts::HostWait wait{member, map, {0, 1}};
};

TEST(HostWaitTest, AHostThatHasLeftAndSendsNothingIsGivenUp) {
  LeftHost left;
  const std::vector<int> other{1};
  const auto error = error_of([&] { left.wait.look(other); });
  EXPECT_EQ(error.kind(), ErrorKind::PeerLost);
  EXPECT_STREQ(error.what(), "all_reduce: host b has left the job");
}

TEST(HostWaitTest, WhatAHostHasSentBeforeItLeftMayTakeItsTimeToArrive) {
  LeftHost left;
  const std::vector<int> other{1};
  const auto begin = host::Clock::now();
  left.wait.look({});  // something has just come from it
  left.wait.look(other);
  const auto error = error_of([&] {
    while (true) {
      left.wait.look(other);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
  });
  EXPECT_EQ(error.kind(), ErrorKind::PeerLost);
  EXPECT_GT(host::Clock::now() - begin, std::chrono::seconds(1));
}

TEST(HostsTransportTest, AFailureThatIsReportedIsTheErrorOfAllHosts) {
  run_hosts({{0, 1}, {2, 3}}, [](Communicator& communicator) {
    communicator.barrier();
    if (communicator.rank() == 3) {
      communicator.report_failure(Error(ErrorKind::Diverged, "loss is nan", "a lower rate"));
    }
    const auto error = error_of([&] {
      while (true) communicator.barrier();
    });
    EXPECT_EQ(error.kind(), ErrorKind::Diverged);
    EXPECT_STREQ(error.what(), "loss is nan");
    EXPECT_EQ(error.hint(), "a lower rate");
  });
}

}  // namespace
}  // namespace lockstep::comm

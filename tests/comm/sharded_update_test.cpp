#include "lockstep/comm/sharded_update.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <mutex>

#include "lockstep/base/error.h"
#include "lockstep/comm/host/kept_memory.h"
#include "lockstep/comm/local/local_group.h"
#include "lockstep/topology/placement.h"
#include "tests/comm/collective_checks.h"
#include "tests/comm/hosts_group.h"

namespace lockstep::comm {
namespace {

using local::run_threads;

constexpr std::int64_t kCount = 50001;

/// Weights after a few steps of a small optimizer whose step is bounded by the sum's norm.
std::vector<float> train(Communicator& communicator, DataType leaf_type, int num_leaves,
                         std::int64_t num_early = 0) {
  const auto mine = topology::replicas_of(
      communicator.rank(), {.replicas = num_leaves, .instances = communicator.size()});
  ShardedUpdate update(communicator,
                       {.count = kCount,
                        .leaf_type = leaf_type,
                        .num_leaves = mine.count,
                        .blocks = {0, 1000, 1001, 17000, 40000},
                        .num_early = num_early,
                        .state_bytes = kCount * sizeof(float)},
                       "weights");
  if (communicator.rank() == 0) {
    for (std::int64_t i = 0; i < kCount; ++i) {
      reinterpret_cast<float*>(update.next_state())[i] = static_cast<float>(i % 97);
    }
  }
  update.publish();
  for (std::uint64_t step = 0; step < 4; ++step) {
    for (int i = 0; i < mine.count; ++i) {
      const auto leaf = testing::elements_of(leaf_type, kCount, step, mine.first + i);
      std::memcpy(update.leaf(), leaf.data(), leaf.size());
      // Some leaves hand in a part of what they may, some all of it.
      while (update.num_taken_early() + i % 2 < update.early_buckets().size()) update.take_early();
      update.take_leaf();
    }
    const bool is_measured = step != 2;
    update.reduce(
        {.divisor = num_leaves,
         .passes = is_measured ? ShardedUpdate::Passes::Several : ShardedUpdate::Passes::One});
    float scale = 1;
    if (is_measured) {
      for (const auto part : update.parts()) {
        for (const float value : part.sum) {
          update.values_of(part.block)[0] += static_cast<double>(value) * value;
        }
      }
      update.share_measured();
      double norm = 0;
      for (const double value : update.measured()) norm += value;
      scale = static_cast<float>(1.0 / std::sqrt(norm));
    }
    for (const auto part : update.parts()) {
      const auto* current = reinterpret_cast<const float*>(update.state()) + part.first;
      auto* next = reinterpret_cast<float*>(update.next_state()) + part.first;
      for (std::size_t i = 0; i < part.sum.size(); ++i) {
        next[i] = current[i] - scale * part.sum[i];
      }
    }
    update.commit();
    EXPECT_EQ(update.version(), step + 2);
  }
  communicator.barrier();
  const auto* weights = reinterpret_cast<const float*>(update.state());
  return {weights, weights + kCount};
}

class ShardedUpdateTest : public ::testing::TestWithParam<DataType> {};

TEST_P(ShardedUpdateTest, GivesTheSameWeightsOnAnyNumberOfInstances) {
  std::vector<float> alone;
  run_threads(1, [&](Communicator& communicator) { alone = train(communicator, GetParam(), 8); });
  EXPECT_NE(alone.front(), 0.0F);
  for (const int instances : {2, 3, 4, 5, 8}) {
    run_threads(instances, [&](Communicator& communicator) {
      const auto weights = train(communicator, GetParam(), 8);
      EXPECT_EQ(std::memcmp(weights.data(), alone.data(), kCount * sizeof(float)), 0)
          << "rank " << communicator.rank() << " of " << instances;
    });
  }
}

INSTANTIATE_TEST_SUITE_P(Types, ShardedUpdateTest,
                         ::testing::Values(DataType::F32, DataType::F16, DataType::BF16),
                         [](const auto& parameter) {
                           return std::string(name_of(parameter.param));
                         });

TEST_P(ShardedUpdateTest, GivesTheSameWeightsOnSeveralHosts) {
  std::vector<float> alone;
  run_threads(1, [&](Communicator& communicator) { alone = train(communicator, GetParam(), 8); });
  const std::vector<testing::HostsGroup::Layout> layouts{
      {{0}, {1}}, {{0, 1}, {2, 3}}, {{0}, {1, 2}, {3, 4}}, {{0, 2}, {1, 3}}};
  for (const auto& layout : layouts) {
    for (const std::int64_t early : {std::int64_t{0}, std::int64_t{30000}, kCount}) {
      testing::run_hosts(layout, [&](Communicator& communicator) {
        const auto weights = train(communicator, GetParam(), 8, early);
        EXPECT_EQ(std::memcmp(weights.data(), alone.data(), kCount * sizeof(float)), 0)
            << "rank " << communicator.rank() << " of " << testing::to_string(layout);
      });
    }
  }
}

TEST(ShardedUpdateTest, CutsALeafFromBehindIntoBucketsThatAreAllOfIt) {
  constexpr std::int64_t kEarly = 1'000'003;
  constexpr std::int64_t kAll = 1'000'100;
  const auto buckets = hosts::cut_into_buckets(kEarly, kAll);
  ASSERT_GT(buckets.size(), 3U);
  EXPECT_EQ(buckets.back().first, kEarly);
  EXPECT_EQ(buckets.back().count, kAll - kEarly);
  auto end = kEarly;
  for (std::size_t i = 0; i + 1 < buckets.size(); ++i) {
    EXPECT_EQ(buckets[i].first + buckets[i].count, end);
    end = buckets[i].first;
  }
  EXPECT_EQ(end, 0);
}

/// What three hosts have kept of versions that differ, as a crash leaves them, and one without.
TEST(ShardedUpdateTest, HostsGoOnFromTheOldestVersionAndGiveItToThoseWithoutAny) {
  std::vector<std::shared_ptr<host::KeptMemory>> kept;
  for (int i = 0; i < 3; ++i) {
    kept.push_back(std::make_shared<host::KeptMemory>(host::KeptMemory::create("job")));
  }
  const ShardedUpdate::Shape shape{
      .count = 1, .state_bytes = sizeof(float), .common_bytes = sizeof(int)};
  const auto common_of = [](const ShardedUpdate& update) -> int& {
    return *reinterpret_cast<int*>(update.common());
  };
  for (int host = 0; host < 3; ++host) {
    // Host 0 is at 5, host 1 at 4; host 2 has just come.
    run_threads(
        1,
        [&](Communicator& communicator) {
          ShardedUpdate update(communicator, shape, "weights");
          for (int version = 1; version <= 5 - host; ++version) {
            *reinterpret_cast<float*>(update.next_state()) = static_cast<float>(version);
            common_of(update) = 10 + host;
            update.publish();
          }
        },
        {}, kept[static_cast<std::size_t>(host)]);
    kept[static_cast<std::size_t>(host)]->begin_attempt();
  }
  kept[2] = std::make_shared<host::KeptMemory>(host::KeptMemory::create("job"));
  testing::HostsGroup group({{0}, {1}, {2}}, {}, kept);
  testing::run_hosts(group, [&](Communicator& communicator) {
    ShardedUpdate update(communicator, shape, "weights");
    EXPECT_TRUE(update.is_recovered());
    EXPECT_EQ(update.recovered_from(), 1);
    EXPECT_EQ(update.version(), 4U);
    EXPECT_EQ(*reinterpret_cast<const float*>(update.state()), 4.0F);
    EXPECT_EQ(common_of(update), 11);
    communicator.barrier();
  });
}

TEST(ShardedUpdateTest, WhatVersionsHaveInCommonReachesEveryHostWithTheFirstOne) {
  testing::run_hosts({{0, 1}, {2, 3}}, [](Communicator& communicator) {
    ShardedUpdate update(
        communicator, {.count = 1, .state_bytes = sizeof(float), .common_bytes = sizeof(int)}, "w");
    auto& common = *reinterpret_cast<int*>(update.common());
    if (communicator.rank() == 0) common = 1;
    update.publish();
    EXPECT_EQ(common, 1);
    communicator.barrier();
  });
}

TEST(ShardedUpdateTest, TheSumIsThatOfAnAllReduce) {
  run_threads(3, [](Communicator& communicator) {
    ShardedUpdate update(communicator, {.count = kCount, .state_bytes = kCount * sizeof(float)},
                         "sum");
    const auto leaf = testing::elements_of(DataType::F32, kCount, 1, communicator.rank());
    std::memcpy(update.leaf(), leaf.data(), leaf.size());
    update.take_leaf();
    update.reduce({});
    for (const auto part : update.parts()) {
      std::memcpy(update.next_state() + static_cast<std::size_t>(part.first) * sizeof(float),
                  part.sum.data(), part.sum.size_bytes());
    }
    update.commit();
    const auto expected = testing::reduced(DataType::F32, ReduceOp::Sum, kCount, 1, 3);
    EXPECT_EQ(std::memcmp(update.state(), expected.data(), expected.size()), 0);
    communicator.barrier();
  });
}

TEST(ShardedUpdateTest, EverybodySeesTheTotalsOfAllLeaves) {
  for (const int instances : {1, 2, 3}) {
    run_threads(instances, [&](Communicator& communicator) {
      const auto mine =
          topology::replicas_of(communicator.rank(), {.replicas = 5, .instances = instances});
      ShardedUpdate update(communicator,
                           {.count = 6,
                            .num_totals = 2,
                            .num_leaves = mine.count,
                            .blocks = {0, 2, 4},
                            .values_per_block = 2,
                            .state_bytes = 7 * sizeof(float)},
                           "totals");
      for (int i = 0; i < mine.count; ++i) {
        auto* leaf = static_cast<float*>(update.leaf());
        std::fill_n(leaf, 6, 1.0F);
        leaf[6] = static_cast<float>(mine.first + i);
        leaf[7] = 100;
        update.take_leaf();
      }
      update.reduce({.divisor = 5, .num_divided = 3, .passes = ShardedUpdate::Passes::Several});
      EXPECT_THAT(update.totals(), ::testing::ElementsAre(10.0F, 500.0F));
      for (const auto part : update.parts()) {
        update.values_of(part.block)[0] = static_cast<double>(part.block) + 1;
      }
      update.share_measured();
      for (const auto part : update.parts()) {
        const auto measured = update.measured();
        update.values_of(part.block)[1] = measured[0] + measured[2] + measured[4];
      }
      update.share_measured();
      auto* const next = reinterpret_cast<float*>(update.next_state());
      for (const auto part : update.parts()) {
        for (std::size_t i = 0; i < part.sum.size(); ++i) {
          next[static_cast<std::size_t>(part.first) + i] =
              part.sum[i] + static_cast<float>(update.measured()[2 * part.block + 1]) +
              update.totals()[1];
        }
      }
      if (update.is_first_on_host()) next[6] = update.totals()[0];
      update.commit();
      const auto* state = reinterpret_cast<const float*>(update.state());
      EXPECT_THAT(std::vector(state, state + 7),
                  ::testing::ElementsAre(507.0F, 507.0F, 507.0F, 511.0F, 511.0F, 511.0F, 10.0F));
      communicator.barrier();
    });
  }
}

TEST(ShardedUpdateTest, AStepThatIsNotCommittedLeavesTheCurrentVersionIntact) {
  std::mutex mutex;
  std::vector<float> seen;
  const auto fails = [&] {
    run_threads(2, [&](Communicator& communicator) {
      ShardedUpdate update(communicator, {.count = 10, .state_bytes = 10 * sizeof(float)},
                           "weights");
      if (communicator.rank() == 0) {
        std::fill_n(reinterpret_cast<float*>(update.next_state()), 10, 5.0F);
      }
      update.publish();
      std::fill_n(static_cast<float*>(update.leaf()), 10, 1.0F);
      update.take_leaf();
      try {
        update.reduce({});
        std::fill_n(reinterpret_cast<float*>(update.next_state()), 10, -1.0F);
        if (communicator.rank() == 0) throw Error(ErrorKind::Bug, "dies");
        update.commit();
      } catch (const Error& error) {
        if (communicator.rank() == 0) communicator.report_failure(error);
        const std::lock_guard lock(mutex);
        EXPECT_EQ(update.version(), 1U);
        seen.push_back(reinterpret_cast<const float*>(update.state())[3]);
        throw;
      }
    });
  };
  EXPECT_THROW(fails(), Error);
  EXPECT_THAT(seen, ::testing::ElementsAre(5.0F, 5.0F));
}

TEST(ShardedUpdateTest, ShapesThatDifferAreAnErrorOnEveryInstance) {
  run_threads(2, [](Communicator& communicator) {
    try {
      const ShardedUpdate update(
          communicator, {.count = communicator.rank() == 0 ? 100 : 50, .state_bytes = 8}, "w");
      ADD_FAILURE() << "accepted";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(),
                  ::testing::HasSubstr("instance 0 has 100 f32, 0 totals, 8 bytes of state"));
      EXPECT_THAT(error.what(),
                  ::testing::HasSubstr("instance 1 has 50 f32, 0 totals, 8 bytes of state"));
    }
  });
}

TEST(ShardedUpdateTest, RefusesShapesAndCallsThatCannotBeMeant) {
  run_threads(1, [](Communicator& communicator) {
    const auto message = [&](const ShardedUpdate::Shape& shape) -> std::string {
      try {
        const ShardedUpdate update(communicator, shape, "w");
        return "accepted";
      } catch (const Error& error) {
        EXPECT_EQ(error.kind(), ErrorKind::Options);
        return error.what();
      }
    };
    EXPECT_EQ(message({.count = 0, .state_bytes = 1}),
              "ShardedUpdate \"w\": expected a count of at least 1, found 0");
    EXPECT_EQ(message({.count = 1, .num_totals = -1, .state_bytes = 1}),
              "ShardedUpdate \"w\": expected at least 0 totals, found -1");
    EXPECT_EQ(message({.count = 1, .leaf_type = DataType::I32, .state_bytes = 1}),
              "ShardedUpdate \"w\": expected leaves of f16, bf16 or f32, found i32");
    EXPECT_EQ(message({.count = 1, .num_leaves = 0, .state_bytes = 1}),
              "ShardedUpdate \"w\": expected at least one leaf, found 0");
    EXPECT_EQ(message({.count = 1, .values_per_block = -1, .state_bytes = 1}),
              "ShardedUpdate \"w\": expected at least 0 values per block, found -1");
    EXPECT_EQ(message({.count = 1}), "ShardedUpdate \"w\": expected a state, found 0 bytes");
    EXPECT_EQ(message({.count = 9, .blocks = {0, 4, 4}, .state_bytes = 1}),
              "ShardedUpdate \"w\": expected blocks that ascend from 0 and begin below 9");

    ShardedUpdate update(communicator, {.count = 4, .num_leaves = 1, .state_bytes = 16}, "w");
    const auto what = [](auto action) -> std::string {
      try {
        action();
        return "accepted";
      } catch (const Error& error) {
        return error.what();
      }
    };
    EXPECT_EQ(what([&] { update.reduce({}); }), "ShardedUpdate \"w\": expected 1 leaves, found 0");
    update.take_leaf();
    EXPECT_EQ(what([&] { update.leaf(); }),
              "ShardedUpdate \"w\": expected 1 leaves, found one more");
    EXPECT_EQ(what([&] { update.reduce({.divisor = 0}); }),
              "ShardedUpdate \"w\": expected a divisor of at least 1, found 0");
  });
}

}  // namespace
}  // namespace lockstep::comm

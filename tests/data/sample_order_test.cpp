#include "lockstep/data/sampling/sample_order.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/data/loader/batch_plan.h"
#include "lockstep/data/sampling/permutation.h"
#include "lockstep/topology/placement.h"
#include "tests/support/errors.h"

namespace lockstep::data {
namespace {

using testing::expect_error;
using ::testing::HasSubstr;
using Samples = std::vector<std::int64_t>;

Samples micro_batch(const TrainOrder& order, const MicroBatchPlace& place) {
  Samples samples(static_cast<std::size_t>(order.shape().batch_size));
  order.samples_of(place, samples);
  return samples;
}

Samples whole_batch(const BatchPlan& plan, const BatchPlace& place) {
  Samples samples(static_cast<std::size_t>(plan.size(place)));
  plan.samples(place, 0, samples);
  return samples;
}

TEST(BatchShapeTest, CountsTheIterationsOfTheTutorial) {
  EXPECT_EQ(iterations_per_epoch(50'000, {64, 8, 4, 1}), 24);
  EXPECT_EQ(iterations_per_epoch(50'000, {64, 8, 4, 8}), 3);
}

TEST(BatchShapeTest, RefusesWhatCannotBeMeant) {
  expect_error(
      [] {
        check(BatchShape{0, 1, 1, 1});
      },
      ErrorKind::Options, "data: batch_size: expected at least 1, found 0");
  expect_error(
      [] {
        check(BatchShape{1, -1, 1, 1});
      },
      ErrorKind::Options, "data: gradient_accumulation: expected at least 1, found -1");
  expect_error(
      [] {
        check(BatchShape{1 << 30, 1 << 30, 1, 1});
      },
      ErrorKind::Options, "out of range");
  expect_error(
      [] {
        iterations_per_epoch(1000, {64, 8, 4, 1});
      },
      ErrorKind::Options,
      "one iteration takes 2048 samples (batch_size 64 x gradient_accumulation 8 x "
      "device_iterations 4 x replicas 1), and the set has 1000");
}

TEST(SubsetTest, IsChosenByTheSeedAloneAndGrowsAtItsEnd) {
  const Subset small(1000, 7, 100);
  const Subset large(1000, 7, 200);
  std::set<std::int64_t> seen;
  for (std::int64_t i = 0; i < small.size(); ++i) {
    EXPECT_EQ(small[i], large[i]);
    seen.insert(small[i]);
  }
  EXPECT_EQ(seen.size(), 100U);
  EXPECT_GT(*seen.rbegin(), 500);  // not simply the first ones
  EXPECT_NE(Subset(1000, 8, 100)[0], small[0]);
}

TEST(SubsetTest, RefusesLimitsThatTheSetCannotMeet) {
  expect_error([] { Subset(10, 0, 0); }, ErrorKind::Options, "a limit of 1 to 10 samples");
  expect_error([] { Subset(10, 0, 11); }, ErrorKind::Options, "found 11");
  expect_error([] { Subset(0, 0); }, ErrorKind::Data, "an empty one");
}

TEST(TrainOrderTest, FollowsThePermutationStepByStepReplicaByReplica) {
  const BatchShape shape{3, 2, 2, 2};
  const TrainOrder order(100, shape, {.seed = 5});
  const Permutation permutation(5, 4, 100);
  std::int64_t next = 0;
  for (std::int64_t step = 0; step < order.steps_per_epoch(); ++step) {
    for (std::int64_t replica = 0; replica < 2; ++replica) {
      for (std::int64_t index = 0; index < 2; ++index) {
        for (const auto sample : micro_batch(order, {4, step, replica, index})) {
          EXPECT_EQ(sample, permutation(next++));
        }
      }
    }
  }
  EXPECT_EQ(next, 96);  // 4 of 100 fill no iteration
}

TEST(TrainOrderTest, WithoutShufflingTakesTheSetInOrder) {
  const TrainOrder order(10, {2, 1, 1, 2}, {.shuffle = false});
  EXPECT_EQ(micro_batch(order, {0, 0, 1, 0}), (Samples{2, 3}));
  EXPECT_EQ(micro_batch(order, {9, 1, 0, 0}), (Samples{4, 5}));
}

TEST(TrainOrderTest, ALimitUsesTheSameSamplesInEveryEpoch) {
  const TrainOrder order(1000, {10, 1, 1, 1}, {.seed = 1, .limit = 50});
  std::set<std::int64_t> epochs[2];
  for (std::int64_t epoch = 0; epoch < 2; ++epoch) {
    for (std::int64_t step = 0; step < order.steps_per_epoch(); ++step) {
      for (const auto sample : micro_batch(order, {epoch, step, 0, 0})) {
        epochs[epoch].insert(sample);
      }
    }
  }
  EXPECT_EQ(epochs[0].size(), 50U);
  EXPECT_EQ(epochs[0], epochs[1]);
}

/// A job, drawn at random.
struct RandomJob {
  std::int64_t samples;
  BatchShape shape;
  int instances;
  std::uint64_t seed;
};

RandomJob draw_job(std::mt19937& random) {
  const auto up_to = [&](int most) { return std::uniform_int_distribution<int>(1, most)(random); };
  const BatchShape shape{up_to(9), up_to(4), up_to(3), up_to(9)};
  return {shape.samples_per_iteration() * up_to(4) + up_to(50) - 1, shape,
          std::uniform_int_distribution<int>(1, static_cast<int>(shape.replicas))(random),
          random()};
}

// Whatever the layout: over all instances, each step takes the entries of the permutation that the
// design says, each once, and nothing else; micro-batches and whole iterations agree.
TEST(TrainOrderTest, CoversEachEpochOnceUnderAnyLayout) {
  std::mt19937 random(20'22);
  for (int round = 0; round < 200; ++round) {
    const auto job = draw_job(random);
    const TrainOrder order(job.samples, job.shape, {.seed = job.seed});
    const Permutation permutation(job.seed, 3, job.samples);
    std::vector<std::int64_t> owner(static_cast<std::size_t>(job.samples), -1);
    for (int instance = 0; instance < job.instances; ++instance) {
      const auto local =
          topology::replicas_of(instance, {static_cast<int>(job.shape.replicas), job.instances, 1});
      const auto small = micro_batches(order, local, static_cast<int>(random() % 4));
      const auto large = iterations(order, local);
      std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t>, Samples> by_place;
      for (std::int64_t n = 0; n < small->batches_per_epoch(); ++n) {
        const auto place = small->place(3, n);
        EXPECT_EQ(place.number, n);
        by_place[{place.step, place.replica, place.micro_batch}] = whole_batch(*small, place);
      }
      Samples in_place_order;
      for (const auto& [place, samples] : by_place) {
        in_place_order.insert(in_place_order.end(), samples.begin(), samples.end());
        const auto [step, replica, index] = place;
        EXPECT_EQ(samples, micro_batch(order, {3, step, replica, index}));
      }
      Samples in_iterations;
      for (std::int64_t n = 0; n < large->batches_per_epoch(); ++n) {
        const auto samples = whole_batch(*large, large->place(3, n));
        in_iterations.insert(in_iterations.end(), samples.begin(), samples.end());
      }
      ASSERT_EQ(in_iterations, in_place_order) << "round " << round;
      for (const auto sample : in_iterations) {
        auto& first = owner[static_cast<std::size_t>(sample)];
        ASSERT_EQ(first, -1) << "sample " << sample << " twice, round " << round;
        first = instance;
      }
    }
    const auto used = order.iterations_per_epoch() * job.shape.samples_per_iteration();
    for (std::int64_t i = 0; i < job.samples; ++i) {
      EXPECT_EQ(owner[static_cast<std::size_t>(permutation(i))] >= 0, i < used);
    }
  }
}

// Two at a time: 0 and 1 in turn until they have their three micro-batches, then 2 and 3, then 4.
TEST(BatchPlanTest, ServesReplicasThatRunSideBySideInTurn) {
  const TrainOrder order(100, {.batch_size = 1, .gradient_accumulation = 3, .replicas = 6}, {});
  const auto plan = micro_batches(order, {1, 5}, 2);
  std::string places;
  for (std::int64_t n = 0; n < 2 * 15; ++n) {
    const auto place = plan->place(0, n);
    EXPECT_EQ(place.step, n / 15);
    places += fmt::format("{}.{} ", place.replica, place.micro_batch);
  }
  const std::string step = "1.0 2.0 1.1 2.1 1.2 2.2 3.0 4.0 3.1 4.1 3.2 4.2 5.0 5.1 5.2 ";
  EXPECT_EQ(places, step + step);
  expect_error(
      [&] {
        micro_batches(order, {0, 2}, -1);
      },
      ErrorKind::Options, "loader: expected at least one replica at a time, found -1");
}

// A part of a batch, as a worker asks for it, is that part of the whole.
TEST(TrainOrderTest, PartsOfABatchAreParts) {
  const TrainOrder order(1000, {7, 3, 2, 5}, {.seed = 3});
  const auto plan = iterations(order, {1, 3});
  const auto place = plan->place(2, 1);
  const auto whole = whole_batch(*plan, place);
  for (std::size_t first = 0; first < whole.size(); first += 11) {
    Samples part(std::min<std::size_t>(16, whole.size() - first));
    plan->samples(place, static_cast<std::int64_t>(first), part);
    EXPECT_TRUE(
        std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(first)));
  }
}

TEST(BatchPlanTest, RefusesReplicasThatTheJobDoesNotHave) {
  const TrainOrder order(100, {1, 1, 1, 4}, {});
  expect_error(
      [&] {
        micro_batches(order, {3, 2});
      },
      ErrorKind::Options, "expected local replicas among 0 to 3, found 2 beginning at 3");
  expect_error([&] { iterations(order, {0, 0}); }, ErrorKind::Options, "found 0 beginning at 0");
}

TEST(EvaluationOrderTest, EverySampleCountsOnceWhateverTheLayout) {
  std::mt19937 random(7);
  for (int round = 0; round < 300; ++round) {
    const auto up_to = [&](int most) {
      return std::uniform_int_distribution<int>(1, most)(random);
    };
    const int replicas = up_to(9);
    const int instances = std::uniform_int_distribution<int>(1, replicas)(random);
    const std::int64_t samples = up_to(300);
    const EvaluationOrder order(samples, {.batch_size = up_to(40), .replicas = replicas});
    std::vector<int> seen(static_cast<std::size_t>(samples));
    std::set<std::int64_t> batches;
    for (int instance = 0; instance < instances; ++instance) {
      const auto local = topology::replicas_of(instance, {replicas, instances, 1});
      const auto plan = evaluation_batches(order, local);
      for (std::int64_t n = 0; n < plan->batches_per_epoch(); ++n) {
        const auto place = plan->place(0, n);
        EXPECT_EQ(place.replica, place.batch % replicas);
        EXPECT_TRUE(batches.insert(place.batch).second);
        const auto all = whole_batch(*plan, place);
        EXPECT_EQ(all.front(), place.batch * order.batch_size());
        for (const auto sample : all) ++seen[static_cast<std::size_t>(sample)];
      }
    }
    EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int count) { return count == 1; }));
    EXPECT_EQ(std::ssize(batches), order.batches());
  }
}

TEST(EvaluationOrderTest, RefusesWhatCannotBeMeant) {
  expect_error([] { EvaluationOrder(10, {.batch_size = 0}); }, ErrorKind::Options,
               "batch_size: expected 1 to 1099511627776, found 0");
  expect_error([] { EvaluationOrder(10, {.replicas = 0}); }, ErrorKind::Options,
               "replicas: expected 1 to 1099511627776, found 0");
}

}  // namespace
}  // namespace lockstep::data

#include "lockstep/monitor/status/bottleneck.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace lockstep::monitor {
namespace {

using events::PhaseSeconds;
using Kind = Bottleneck::Kind;

/// Seconds of each instance, numbered from 0.
std::vector<InstanceTimes> times(const std::vector<PhaseSeconds>& seconds) {
  std::vector<InstanceTimes> all;
  for (const auto& of_one : seconds) all.push_back({static_cast<int>(all.size()), of_one});
  return all;
}

std::string text(const std::vector<PhaseSeconds>& seconds, const BottleneckFacts& facts = {}) {
  const auto found = find_bottleneck(times(seconds), facts);
  return found ? found->text : "none";
}

TEST(BottleneckTest, NamesWhatReplicasWaitForAndWhatToTry) {
  EXPECT_EQ(text({{.data = 31, .compute = 60, .reduce = 5, .idle = 4}}, {.workers = 2}),
            "input-bound: replicas waited 31 % of the time for data; try --num-workers 4");
  EXPECT_EQ(text({{.data = 31, .compute = 60, .reduce = 5, .idle = 4}}, {.workers = 0}),
            "input-bound: replicas waited 31 % of the time for data; try --num-workers 2");
  EXPECT_EQ(
      text({{.data = 31, .compute = 60, .reduce = 5, .idle = 4}}, {.workers = 64}),
      "input-bound: replicas waited 31 % of the time for data; try --eight-bit-io, or a faster "
      "disk");
  EXPECT_EQ(text({{.data = 31, .compute = 60, .reduce = 5, .idle = 4}}),
            "input-bound: replicas waited 31 % of the time for data; try more --num-workers");
}

TEST(BottleneckTest, SaysThatNothingIsInTheWayOfComputing) {
  EXPECT_EQ(text({{.data = 2, .compute = 93, .reduce = 4, .idle = 1}}),
            "compute-bound: replicas computed 93 % of the time");
}

TEST(BottleneckTest, TellsGradientsOfOneHostFromThoseBetweenHosts) {
  const PhaseSeconds seconds{.data = 1, .compute = 74, .reduce = 24, .idle = 1};
  EXPECT_EQ(text({seconds}, {.gradient_accumulation = 1}),
            "reduction-bound: combining gradients and updating weights took 24 % of the time; try "
            "--gradient-accumulation 2");
  EXPECT_EQ(text({seconds, seconds}, {.hosts = 2, .gradient_accumulation = 8}),
            "network-bound: gradients between hosts took 24 % of the time; try "
            "--gradient-accumulation 16");
  EXPECT_EQ(
      text({seconds}),
      "reduction-bound: combining gradients and updating weights took 24 % of the time; try a "
      "larger --gradient-accumulation");
}

TEST(BottleneckTest, NamesTheInstanceThatTheOthersWaitFor) {
  const PhaseSeconds waiting{.data = 1, .compute = 60, .reduce = 4, .idle = 35};
  const PhaseSeconds busy{.data = 1, .compute = 92, .reduce = 4, .idle = 3};
  const auto found = find_bottleneck(times({waiting, waiting, busy, waiting}));
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, Kind::Uneven);
  EXPECT_EQ(found->slowest, 2);
  EXPECT_NEAR(found->share, 0.32, 1e-9);
  EXPECT_EQ(
      found->text,
      "uneven: the others waited 32 % of the time for instance 2, which computes longest; try "
      "--bind core, or look what else runs on its cores");
}

TEST(BottleneckTest, KnowsAnInstanceThatIsSlowBecauseItWaitsForData) {
  const PhaseSeconds waiting{.data = 1, .compute = 30, .reduce = 4, .idle = 65};
  const PhaseSeconds starved{.data = 64, .compute = 30, .reduce = 4, .idle = 2};
  const auto found = find_bottleneck(times({waiting, starved}), {.workers = 1});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, Kind::Input);
  EXPECT_EQ(found->slowest, 1);
  EXPECT_EQ(found->text,
            "input-bound: instance 1 waited 64 % of the time for data, and the others for it; try "
            "--num-workers 2");
}

TEST(BottleneckTest, GivesTheShareOfTheTimeThatTheTextNames) {
  struct Case {
    PhaseSeconds seconds;
    int hosts;
    Kind kind;
    double share;
  };
  for (const auto& [seconds, hosts, kind, share] :
       {Case{{.data = 6, .compute = 3, .reduce = 1}, 1, Kind::Input, 0.6},
        Case{{.data = 0.5, .compute = 9, .reduce = 0.5}, 1, Kind::Compute, 0.9},
        Case{{.data = 1, .compute = 2, .reduce = 7}, 1, Kind::Reduce, 0.7},
        Case{{.data = 1, .compute = 1, .reduce = 8}, 2, Kind::Network, 0.8},
        Case{{.data = 1, .compute = 5, .idle = 4}, 1, Kind::Idle, 0.4}}) {
    const auto found = find_bottleneck(times({seconds, seconds}), {.hosts = hosts});
    ASSERT_TRUE(found);
    EXPECT_EQ(found->kind, kind) << found->text;
    EXPECT_NEAR(found->share, share, 1e-9) << found->text;
    EXPECT_EQ(found->slowest, std::nullopt) << found->text;
  }
}

TEST(BottleneckTest, TellsOfWaitingInTurn) {
  const PhaseSeconds seconds{.data = 2, .compute = 66, .reduce = 5, .idle = 27};
  EXPECT_EQ(
      text({seconds, seconds}),
      "idle: instances waited 27 % of the time for each other; try fewer instances, or bind each "
      "instance to its own cores with --bind core");
  EXPECT_EQ(text({seconds}),
            "idle: devices waited 27 % of the time for each other; try a larger "
            "--gradient-accumulation");
}

TEST(BottleneckTest, SaysNothingBeforeTheFirstStep) {
  EXPECT_EQ(text({}), "none");
  EXPECT_EQ(text({{}, {}}), "none");
  EXPECT_EQ(text({{}, {.compute = 1}}), "compute-bound: replicas computed 100 % of the time");
}

}  // namespace
}  // namespace lockstep::monitor

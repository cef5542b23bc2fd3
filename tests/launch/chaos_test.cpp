#include "lockstep/launch/supervise/chaos.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

#include "tests/support/errors.h"

namespace lockstep::launch {
namespace {

using ::testing::ElementsAre;

TEST(ChaosTest, ReadsSeedRateAndKinds) {
  EXPECT_EQ(parse_chaos("7"), (ChaosOptions{.seed = 7}));
  EXPECT_EQ(parse_chaos("18446744073709551615,mtbf=2.5").seed, 18446744073709551615U);
  EXPECT_EQ(parse_chaos("1,mtbf=2.5").mtbf.count(), 2.5);
  EXPECT_THAT(parse_chaos("1,kinds=slow").kinds, ElementsAre(FaultKind::Slow));
  const auto both = parse_chaos("1,kinds=stop,kill,mtbf=3");
  EXPECT_THAT(both.kinds, ElementsAre(FaultKind::Stop, FaultKind::Kill));
  EXPECT_EQ(both.mtbf.count(), 3);
}

TEST(ChaosTest, RefusesWhatCannotBeMeant) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "run: --chaos is '', expected a seed first, a whole number of at least 0"},
      {"x", "expected a seed first"},
      {"-1", "expected a seed first"},
      {"18446744073709551616", "expected a seed first"},
      {"mtbf=3", "expected a seed first"},
      {"1,", "expected SEED[,mtbf=SECONDS][,kinds=kill,stop,slow]"},
      {"1,kill", "expected SEED[,mtbf=SECONDS][,kinds=kill,stop,slow]"},
      {"1,mtbf=", "expected mtbf=SECONDS with more than 0"},
      {"1,mtbf=0", "expected mtbf=SECONDS with more than 0"},
      {"1,mtbf=-2", "expected mtbf=SECONDS with more than 0"},
      {"1,mtbf=nan", "expected mtbf=SECONDS with more than 0"},
      {"1,mtbf=1e9", "expected mtbf=SECONDS with more than 0"},
      {"1,kinds=", "expected kinds of kill, stop and slow"},
      {"1,kinds=kill,burn", "expected kinds of kill, stop and slow"},
      {"1,kinds=kill,kill", "expected each kind once"}};
  for (const auto& [text, message] : cases) {
    testing::expect_error([&, &text = text] { parse_chaos(text); }, ErrorKind::Options, message);
  }
}

TEST(ChaosTest, DrawsTheSameFaultsFromTheSameSeed) {
  const ChaosOptions options{.seed = 7};
  int equal_to_other_seed = 0;
  for (std::uint32_t i = 0; i < 100; ++i) {
    const auto fault = fault_of(options, i);
    const auto again = fault_of(options, i);
    EXPECT_EQ(fault.gap, again.gap);
    EXPECT_EQ(fault.kind, again.kind);
    EXPECT_EQ(fault.choose(5), again.choose(5));
    EXPECT_EQ(fault.duration, again.duration);
    equal_to_other_seed += fault_of({.seed = 8}, i).gap == fault.gap ? 1 : 0;
  }
  EXPECT_LT(equal_to_other_seed, 3);
}

TEST(ChaosTest, KeepsToItsRates) {
  constexpr int kFaults = 20000;
  const ChaosOptions options{.seed = 3, .mtbf = events::Seconds(4)};
  double total = 0;
  int longer_than_mean = 0;
  std::array<int, 3> kinds{};
  std::array<int, 4> instances{};
  for (std::uint32_t i = 0; i < kFaults; ++i) {
    const auto fault = fault_of(options, i);
    total += fault.gap.count();
    longer_than_mean += fault.gap.count() > 4 ? 1 : 0;
    ++kinds[static_cast<std::size_t>(fault.kind)];
    ++instances[static_cast<std::size_t>(fault.choose(4))];
    if (fault.kind == FaultKind::Slow) {
      EXPECT_GE(fault.duration.count(), 0.1);
      EXPECT_LE(fault.duration.count(), 2);
    } else {
      EXPECT_EQ(fault.duration.count(), 0);
    }
  }
  EXPECT_NEAR(total / kFaults, 4, 0.15);
  EXPECT_NEAR(longer_than_mean, kFaults * 0.3679, kFaults * 0.015);  // 1/e, as of an exponential
  for (const int count : kinds) EXPECT_NEAR(count, kFaults / 3, kFaults * 0.02);
  for (const int count : instances) EXPECT_NEAR(count, kFaults / 4, kFaults * 0.02);
}

TEST(ChaosTest, InjectsNoKindThatIsNotWanted) {
  const ChaosOptions options{.seed = 3, .kinds = {FaultKind::Kill, FaultKind::Slow}};
  EXPECT_FALSE(options.has(FaultKind::Stop));
  for (std::uint32_t i = 0; i < 1000; ++i) EXPECT_NE(fault_of(options, i).kind, FaultKind::Stop);
}

}  // namespace
}  // namespace lockstep::launch

#include "bench/comm/collective.h"

#include <gtest/gtest.h>

#include "bench/comm/job.h"

namespace lockstep::bench {
namespace {

struct Case {
  Collective collective;
  const char* text;
  std::int64_t input;
  std::int64_t output;
  double gb_s;

  friend void PrintTo(const Case& value, std::ostream* stream) { *stream << value.text; }
};

class BenchCollectiveTest : public ::testing::TestWithParam<Case> {
 protected:
  Cell cell{GetParam().collective, 24'000, 4};
};

TEST_P(BenchCollectiveTest, IsDescribedByNameSizeAndInstances) {
  EXPECT_EQ(describe(cell), GetParam().text);
}

TEST_P(BenchCollectiveTest, SharesTheWholeOutAsNcclTestsDo) {
  const auto counts = element_counts(cell);
  EXPECT_EQ(counts.input, GetParam().input);
  EXPECT_EQ(counts.output, GetParam().output);
}

TEST_P(BenchCollectiveTest, HasTheBusBandwidthOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_bandwidth(cell, Seconds(1e-6)), GetParam().gb_s);
}

INSTANTIATE_TEST_SUITE_P(
    All, BenchCollectiveTest,
    ::testing::Values(
        Case{Collective::AllReduce, "all_reduce 24000 B, 4 instances", 6000, 0, 36},
        Case{Collective::ReduceScatter, "reduce_scatter 24000 B, 4 instances", 6000, 1500, 18},
        Case{Collective::AllGather, "all_gather 24000 B, 4 instances", 1500, 6000, 18},
        Case{Collective::Broadcast, "broadcast 24000 B, 4 instances", 6000, 0, 24}));

}  // namespace
}  // namespace lockstep::bench

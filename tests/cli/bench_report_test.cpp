#include "lockstep/cli/bench_report.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"

namespace lockstep::cli {
namespace {

std::vector<Seconds> milliseconds(std::initializer_list<double> values) {
  std::vector<Seconds> samples;
  for (const double value : values) samples.emplace_back(value / 1e3);
  return samples;
}

TEST(BenchReportTest, TakesMedianAndP99OfWhatWasMeasured) {
  const auto timing = summarize(milliseconds({5, 1, 4, 2, 3}));
  EXPECT_DOUBLE_EQ(timing.median.count(), 3e-3);
  EXPECT_DOUBLE_EQ(timing.p99.count(), 5e-3);
  EXPECT_EQ(timing.rounds, 5);
  EXPECT_THROW(summarize({}), Error);
}

BenchReport example() {
  return {"launch",
          {{"start", "lockstep", summarize(milliseconds({10})), {}},
           {"start", "mpirun", summarize(milliseconds({40})), 0.25}}};
}

TEST(BenchReportTest, PrintsATableWithTheRatioToThePeer) {
  EXPECT_EQ(example().to_table(),
            "work   system    median    p99       lockstep / peer\n"
            "start  lockstep  10.00 ms  10.00 ms\n"
            "start  mpirun    40.00 ms  40.00 ms  0.25\n");
}

TEST(BenchReportTest, RecordsWhereTheNumbersComeFrom) {
  const auto json = nlohmann::json::parse(example().to_json());
  for (const auto* key : {"host", "processor", "cores", "version", "commit", "build"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["bench"], "launch");
  EXPECT_DOUBLE_EQ(json["rows"][1]["median_s"], 0.04);
  EXPECT_DOUBLE_EQ(json["rows"][1]["ratio"], 0.25);
  EXPECT_FALSE(json["rows"][0].contains("ratio"));
}

}  // namespace
}  // namespace lockstep::cli

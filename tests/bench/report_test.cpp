#include "bench/driver/report.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "lockstep/base/error.h"

namespace lockstep::bench {
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

Report example() {
  return {"launch",
          {{"start", "lockstep", summarize(milliseconds({10}))},
           {"start", "mpirun", summarize(milliseconds({40})), 0.25}}};
}

TEST(BenchReportTest, PrintsATableWithTheRatioToThePeer) {
  EXPECT_EQ(example().to_table(),
            "work   system    median    p99       lockstep / peer\n"
            "start  lockstep  10.00 ms  10.00 ms\n"
            "start  mpirun    40.00 ms  40.00 ms  0.25\n");
}

Report example_of_transfers() {
  return {"comm",
          {{.work = "all_reduce 4 KiB, 8 instances",
            .system = "lockstep",
            .timing = summarize(milliseconds({0.09996})),
            .transfer = Transfer{4096, 8, 0.0717}},
           {.work = "all_reduce 4 KiB, 8 instances",
            .system = "gloo",
            .timing = summarize(milliseconds({25})),
            .ratio = 0.004,
            .transfer = Transfer{4096, 8, 0.00028672}},
           {.work = "all_reduce 100 MiB, 8 instances",
            .system = "mpi",
            .timing = summarize(milliseconds({1})),
            .ratio = 1.049,
            .transfer = Transfer{104857600, 8, 12.3456}}}};
}

TEST(BenchReportTest, PrintsTransfersWithBandwidthAndDigitsThatCanBeCompared) {
  EXPECT_EQ(example_of_transfers().to_table(),
            "work                             system    median     p99        bus bandwidth  "
            "lockstep / peer\n"
            "all_reduce 4 KiB, 8 instances    lockstep  100.0 µs   100.0 µs   0.0717 GB/s\n"
            "all_reduce 4 KiB, 8 instances    gloo      25.00 ms   25.00 ms   0.000287 GB/s  "
            "0.004\n"
            "all_reduce 100 MiB, 8 instances  mpi       1.00 ms    1.00 ms    12.3 GB/s      "
            "1.05\n");
}

TEST(BenchReportTest, RecordsWhatWasMoved) {
  const auto json = nlohmann::json::parse(example_of_transfers().to_json());
  EXPECT_EQ(json["rows"][2]["size_bytes"], 104857600);
  EXPECT_EQ(json["rows"][2]["instances"], 8);
  EXPECT_DOUBLE_EQ(json["rows"][2]["bus_gb_s"], 12.3456);
  EXPECT_FALSE(nlohmann::json::parse(example().to_json())["rows"][0].contains("bus_gb_s"));
}

Report example_of_training() {
  return {"train",
          {{.work = "train",
            .system = "lockstep",
            .timing = summarize(milliseconds({200})),
            .images_per_second = 640,
            .data_share = 0.0012},
           {.work = "train",
            .system = "torch",
            .timing = summarize(milliseconds({400})),
            .ratio = 0.5,
            .images_per_second = 320,
            .data_share = 0.0751},
           {.work = "launch", .system = "torch", .timing = summarize(milliseconds({3456}))}}};
}

TEST(BenchReportTest, PrintsTheTimeThatIsSpentWaitingForData) {
  EXPECT_EQ(example_of_training().to_table(),
            "work    system    median     p99        images/s  waiting for data  lockstep / peer  "
            "speed-up\n"
            "train   lockstep  200.00 ms  200.00 ms  640       0.12 %\n"
            "train   torch     400.00 ms  400.00 ms  320       7.51 %            0.50             "
            "2x\n"
            "launch  torch     3.46 s     3.46 s\n");
  const auto json = nlohmann::json::parse(example_of_training().to_json());
  EXPECT_DOUBLE_EQ(json["rows"][1]["data_share"], 0.0751);
  EXPECT_FALSE(json["rows"][2].contains("data_share"));
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
}  // namespace lockstep::bench

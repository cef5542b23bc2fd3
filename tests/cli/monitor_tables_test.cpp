#include "lockstep/cli/monitor_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <stdlib.h>
#include <time.h>

#include <limits>
#include <sstream>

#include "lockstep/cli/monitor_watch.h"
#include "lockstep/monitor/devices/snapshot_json.h"
#include "lockstep/ui/text_width.h"

namespace lockstep::cli {
namespace {

using monitor::DeviceKind;
using monitor::Health;
using monitor::WatchedInstance;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr double kNow = 1'700'000'000;

WatchedInstance trainer(int number) {
  WatchedInstance watched;
  watched.found.facts = {.job = "4f1d0c7a92be",
                         .host = "node7",
                         .user = "ada",
                         .command = "/usr/bin/lockstep-train train --model resnet101 --epochs 5",
                         .process = 40711 + number,
                         .start_time = kNow - 3725,
                         .instance = number,
                         .num_instances = 2,
                         .replicas = {4 * number, 4},
                         .num_replicas = 8,
                         .device_ids = {2 * number, 2 * number + 1, 2 * number, 2 * number + 1}};
  watched.found.state = {.phase = monitor::Phase::Training,
                         .epoch = 2,
                         .step = 120 + number,
                         .steps_of_epoch = 782,
                         .samples = 100000,
                         .samples_per_second = 12345.6 + number,
                         .loss = 1.4567,
                         .accuracy = 48.44,
                         .seconds = {.data = 10, .compute = 80, .reduce = 5, .idle = 5},
                         .collectives = 7,
                         .collective = "all_reduce",
                         .is_in_collective = number == 1,
                         .updated_ns = 1'000'000'000};
  watched.usage = {.cpu_percent = 199.6 + number, .memory_bytes = 1400LL << 20, .cpus = {0, 1}};
  return watched;
}

WatchedInstance on_gpu() {
  auto watched = trainer(0);
  watched.found.facts.job = "a0b1c2d3e4f5";
  watched.found.facts.process = 1234567;
  watched.found.facts.num_instances = 1;
  watched.found.facts.device_kind = DeviceKind::Cuda;
  watched.found.facts.device_ids = {0};
  watched.found.facts.start_time = kNow - 42;
  watched.found.state.phase = monitor::Phase::Evaluating;
  watched.found.state.samples_per_second = 45;
  watched.found.state.loss = std::numeric_limits<double>::quiet_NaN();
  watched.found.state.device_memory_bytes = 61LL << 30;
  return watched;
}

WatchedInstance damaged() {
  WatchedInstance watched;
  watched.found.health = Health::Damaged;
  watched.found.problem = "cut short: 5 of 4096 bytes";
  watched.found.path = "/run/status-1";
  watched.found.facts.instance = 1;
  return watched;
}

monitor::HostSnapshot snapshot() {
  return {
      .host = "node7",
      .unix_time = kNow,
      .steady_ns = 3'500'000'000,
      .devices = {{.host = "node7",
                   .model = "AMD EPYC 9654 96-Core Processor",
                   .cpus = {0, 1, 2, 3, 4, 5, 6, 7},
                   .memory_bytes = 256LL << 30,
                   .used_memory_bytes = 31LL << 30,
                   .load = 51.2,
                   .temperature_celsius = 48},
                  {.host = "node7",
                   .id = 0,
                   .cpus = {0, 1},
                   .load = 99.7,
                   .stages = {{"4f1d0c7a92be", 0, 0, 0, false}, {"4f1d0c7a92be", 0, 2, 0, false}}},
                  {.host = "node7",
                   .kind = DeviceKind::Cuda,
                   .id = 0,
                   .model = "NVIDIA H200",
                   .memory_bytes = 140LL << 30,
                   .used_memory_bytes = 61LL << 30,
                   .load = 97,
                   .temperature_celsius = 61,
                   .power_watts = 512.3,
                   .stages = {{"a0b1c2d3e4f5", 0, 0, 1, true}, {"a0b1c2d3e4f5", 0, 1, 1, true}}}},
      .jobs = {{.id = "4f1d0c7a92be", .user = "ada", .instances = {trainer(0), trainer(1)}},
               {.id = "a0b1c2d3e4f5", .user = "ada", .instances = {on_gpu(), damaged()}},
               {.id = "bbbbbbbbbbbb", .user = "ada"}}};
}

class MonitorTablesTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TZ", "UTC", 1);
    ::tzset();
  }
};

TEST_F(MonitorTablesTest, FitEightyColumns) {
  EXPECT_EQ(monitor_text(snapshot(), {.width = 80}),
            R"(node7  2023-11-14 22:13:20  3 jobs, 3 processes

device host  model      cores         memory load temp power job        replicas
cpu    node7 AMD EPYC …   0-7 31.0/256.0 GiB  51% 48 C     - -          -
cpu:0  node7 -            0-1              - 100%    -     - 4f1d0c7a9… 0,2
cuda:0 node7 NVIDIA H2…     - 61.0/140.0 GiB  97% 61 C 512 W a0b1c2d3e… 0.1,1.1

    pid job      inst repl dev  cpu   mem    time      step samples/s phase
  40711 4f1d0c7…  0/2 0-3  0-1 200%  1.4G 1:02:05 2:120/782     12.3k training
  40712 4f1d0c7…  1/2 4-7  2-3 201%  1.4G 1:02:05 2:121/782     12.3k training
1234567 a0b1c2d…  0/1 0-3  0   200% 62.4G    0:42 2:120/782      45.0 evaluating

job a0b1c2d3e4f5, instance 1: status page: cut short: 5 of 4096 bytes
job bbbbbbbbbbbb runs, but its program publishes no status
)");
}

TEST_F(MonitorTablesTest, UseMoreColumnsWhereThereAreSome) {
  EXPECT_EQ(monitor_text(snapshot(), {.width = 190}),
            R"(node7  2023-11-14 22:13:20  3 jobs, 3 processes

device  host   model                            cores          memory  load  temp  power  job           replicas
cpu     node7  AMD EPYC 9654 96-Core Processor    0-7  31.0/256.0 GiB   51%  48 C      -  -             -
cpu:0   node7  -                                  0-1               -  100%     -      -  4f1d0c7a92be  0,2
cuda:0  node7  NVIDIA H200                          -  61.0/140.0 GiB   97%  61 C  512 W  a0b1c2d3e4f5  0.1,1.1

    pid  user  job           inst  repl  dev   cpu    mem     time       step  samples/s   loss   acc  data  reduce  phase       collective  command
  40711  ada   4f1d0c7a92be   0/2  0-3   0-1  200%   1.4G  1:02:05  2:120/782      12.3k  1.457  48.4   10%      5%  training    -           lockstep-train train --model resnet101 --epochs 5
  40712  ada   4f1d0c7a92be   1/2  4-7   2-3  201%   1.4G  1:02:05  2:121/782      12.3k  1.457  48.4   10%      5%  training    all_reduce  lockstep-train train --model resnet101 --epochs 5
1234567  ada   a0b1c2d3e4f5   0/1  0-3   0    200%  62.4G     0:42  2:120/782       45.0      -  48.4   10%      5%  evaluating  -           lockstep-train train --model resnet101 --epochs 5

job a0b1c2d3e4f5, instance 1: status page: cut short: 5 of 4096 bytes
job bbbbbbbbbbbb runs, but its program publishes no status
)");
}

TEST_F(MonitorTablesTest, TellSeveralHostsApart) {
  auto both = snapshot();
  both.devices[1].host = "node8";
  both.jobs[0].instances[1].found.facts.host = "node8";
  const auto text = monitor_text(both, {.width = 80});
  EXPECT_THAT(text, HasSubstr("cpu:0  node8 "));
  EXPECT_THAT(text, HasSubstr("\nhost      pid job"));
  EXPECT_THAT(text, HasSubstr("\nnode8   40712 "));
}

TEST_F(MonitorTablesTest, NoLineIsWiderThanTheTerminal) {
  for (std::size_t width = 50; width < 200; width += 7) {
    std::istringstream text(monitor_text(snapshot(), {.width = width}));
    for (std::string line; std::getline(text, line) && !line.starts_with("job ");) {
      EXPECT_LE(ui::width_of(line), width) << line;
    }
  }
}

TEST_F(MonitorTablesTest, SayThatNothingRuns) {
  const auto text = monitor_text({.host = "node7", .unix_time = kNow}, {});
  EXPECT_THAT(text, HasSubstr("0 jobs, 0 processes"));
  EXPECT_THAT(text, HasSubstr("no process publishes a status\n"));
}

TEST_F(MonitorTablesTest, SayWhatIsStoppedOrHasEnded) {
  auto shown = snapshot();
  shown.jobs[0].instances[0].found.health = Health::Stopped;
  shown.jobs[0].instances[1].found.health = Health::Ended;
  const auto text = monitor_text(shown, {.width = 80});
  EXPECT_THAT(text, HasSubstr(" stopped"));
  EXPECT_THAT(text, HasSubstr(" ended"));
}

/// The processes in the order in which they are listed.
std::vector<std::string> pids(ProcessOrder order) {
  auto shown = snapshot();
  auto& first = shown.jobs[0].instances;
  first[0].usage.memory_bytes = 5LL << 30;
  first[0].found.facts.start_time = kNow - 9999;
  first[1].usage.cpu_percent = 1;
  std::istringstream text(monitor_text(shown, {.width = 80, .order = order}));
  std::vector<std::string> found;
  for (std::string line; std::getline(text, line);) {
    std::istringstream words(line);
    std::string word;
    if (words >> word && word.find_first_not_of("0123456789") == std::string::npos) {
      found.push_back(word);
    }
  }
  return found;
}

TEST_F(MonitorTablesTest, ListProcessesInEveryOrder) {
  using Pids = std::vector<std::string>;
  EXPECT_EQ(pids(ProcessOrder::Job), (Pids{"40711", "40712", "1234567"}));
  EXPECT_EQ(pids(ProcessOrder::Cpu), (Pids{"40711", "1234567", "40712"}));
  EXPECT_EQ(pids(ProcessOrder::Memory), (Pids{"40711", "40712", "1234567"}));
  EXPECT_EQ(pids(ProcessOrder::Samples), (Pids{"40712", "40711", "1234567"}));
  EXPECT_EQ(pids(ProcessOrder::Time), (Pids{"40711", "40712", "1234567"}));
  for (const auto& name : process_order_names()) {
    EXPECT_EQ(name_of(parse_process_order(name).value()), name);
  }
  EXPECT_FALSE(parse_process_order("size").has_value());
}

TEST_F(MonitorTablesTest, KeepToOneJobAndItsDevices) {
  auto shown = snapshot();
  keep_job(shown, "a0b1");
  ASSERT_EQ(shown.jobs.size(), 1U);
  EXPECT_EQ(shown.jobs[0].id, "a0b1c2d3e4f5");
  ASSERT_EQ(shown.devices.size(), 2U);
  EXPECT_FALSE(shown.devices[0].id.has_value());
  EXPECT_EQ(shown.devices[1].kind, DeviceKind::Cuda);
}

TEST_F(MonitorTablesTest, AsJsonHoldsEverythingWithNullForWhatNobodyKnows) {
  const auto json = nlohmann::json::parse(monitor::to_json(snapshot()));
  EXPECT_EQ(json["host"], "node7");
  EXPECT_EQ(json["devices"][0]["kind"], "cpu");
  EXPECT_TRUE(json["devices"][0]["id"].is_null());
  EXPECT_TRUE(json["devices"][0]["power_watts"].is_null());
  EXPECT_EQ(json["devices"][2]["id"], 0);
  EXPECT_EQ(json["devices"][2]["stages"][1]["replica"], 1);
  const auto& instance = json["jobs"][0]["instances"][1];
  EXPECT_EQ(instance["pid"], 40712);
  EXPECT_EQ(instance["phase"], "training");
  EXPECT_EQ(instance["seconds"]["reduce"], 5);
  EXPECT_EQ(instance["seconds_since_update"], 2.5);
  EXPECT_EQ(instance["device_ids"], (std::vector{2, 3, 2, 3}));
  EXPECT_EQ(instance["health"], "running");
  EXPECT_EQ(instance["is_in_collective"], true);
  const auto& others = json["jobs"][1]["instances"];
  EXPECT_TRUE(others[0]["loss"].is_null());
  EXPECT_EQ(others[1]["health"], "damaged");
  EXPECT_EQ(others[1]["problem"], "cut short: 5 of 4096 bytes");
  EXPECT_FALSE(others[1].contains("pid"));
  EXPECT_TRUE(json["jobs"][2]["instances"].empty());
}

}  // namespace
}  // namespace lockstep::cli

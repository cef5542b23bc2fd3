#include "tests/support/fake_job_feed.h"

#include <cmath>
#include <string>

namespace lockstep::testing {
namespace {

using events::LogEntry;
using monitor::DashboardInstance;
using monitor::DashboardJob;

/// Instance 2 computes while the other instances wait for it in the reduction.
DashboardInstance made_instance(const std::string& host, int index, int looks) {
  const double wobble = 0.02 * std::sin(looks * 0.7 + index);
  const double compute = index == 2 ? 0.85 : 0.6 + wobble;
  const double data = 0.08 + wobble / 2;
  const double idle = 0.02;
  DashboardInstance instance{
      .host = host,
      .index = index,
      .phase = "training",
      .process = 4712 + index,
      .step = looks * 3,
      .samples_per_second = 510 + 10 * std::sin(looks * 0.3 + index),
      .memory_mib = 800 + index,
      .cpu_percent = 97,
      .time = monitor::TimeShares{
          .data = data, .compute = compute, .reduce = 1 - data - compute - idle, .idle = idle}};
  for (const int replica : {2 * index, 2 * index + 1}) {
    instance.replicas.push_back({.index = replica, .stage_devices = {"cpu 0", "cpu 1"}});
  }
  return instance;
}

DashboardInstance made_ended_instance(const std::string& host, int index, int looks) {
  auto instance = made_instance(host, index, looks);
  instance.is_alive = false;
  instance.phase = "ended";
  instance.samples_per_second.reset();
  instance.memory_mib.reset();
  instance.cpu_percent.reset();
  instance.time.reset();
  return instance;
}

std::vector<LogEntry> made_events(int looks) {
  std::vector<LogEntry> entries{
      {.event = "start",
       .instance = 0,
       .more = {{"time", "2026-11-16T09:00:00.000Z"}, {"host", "node-a"}}},
      {.event = "failure",
       .instance = 1,
       .step = 20,
       .more = {{"time", "2026-11-16T09:00:41.500Z"}, {"signal", "SIGKILL"}}},
      {.event = "restart",
       .instance = 1,
       .step = 20,
       .more = {{"time", "2026-11-16T09:00:41.600Z"}, {"number", std::int64_t{1}}}}};
  for (int i = 1; i <= looks / 10 && entries.size() < 100; ++i) {
    entries.push_back({.event = "checkpoint",
                       .step = i * 30,
                       .more = {{"time", "2026-11-16T09:01:00.000Z"}, {"seconds", 0.25}}});
  }
  return entries;
}

DashboardJob running_job(int looks) {
  return {.id = "train",
          .name = "resnet20 on cifar10",
          .user = "ann",
          .epoch = 1 + looks / 40,
          .step = looks * 3,
          .loss = 0.4 + 1.9 * std::exp(-looks / 40.0) + 0.03 * std::sin(looks * 1.3),
          .accuracy = 92 - 80 * std::exp(-looks / 50.0),
          .samples_per_second = 2040 + 40 * std::sin(looks * 0.3),
          .restarts = 1,
          .bottleneck =
              "uneven: the others waited 25 % of the time for instance 2, which computes longest; "
              "try --bind core, or look what else runs on its cores",
          .slowest = 2,
          .instances = {made_instance("node-a", 0, looks), made_instance("node-a", 1, looks),
                        made_instance("node-b", 2, looks), made_instance("node-b", 3, looks)},
          .events = made_events(looks)};
}

/// The running job after its end.
DashboardJob failed_job(int looks) {
  auto job = running_job(looks);
  job.end = {.exit_code = 137,
             .text = "failed after 12.3 s (exit code 137): instance 2: killed by SIGKILL"};
  job.samples_per_second.reset();
  job.bottleneck.clear();
  job.slowest.reset();
  for (auto& instance : job.instances) {
    instance = made_ended_instance(instance.host, instance.index, looks);
  }
  return job;
}

DashboardJob succeeded_job() {
  return {
      .id = "done",
      .name = "mlp <script>alert(1)</script> & \"friends\"",
      .user = "ben",
      .end = monitor::JobEnd{.exit_code = 0, .text = "succeeded after 7.5 s (exit code 0)"},
      .step = 200,
      .loss = 0.12,
      .instances = {made_ended_instance("node-a", 0, 10), made_ended_instance("node-a", 1, 10)}};
}

}  // namespace

std::vector<DashboardJob> FakeJobFeed::jobs() {
  ++looks_;
  return {has_ended_ ? failed_job(looks_) : running_job(looks_), succeeded_job()};
}

}  // namespace lockstep::testing

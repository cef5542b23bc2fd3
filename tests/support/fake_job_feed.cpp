#include "tests/support/fake_job_feed.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace lockstep::testing {
namespace {

using Json = nlohmann::json;

Json made_replica(int index) {
  Json stages = Json::array();
  for (int stage = 0; stage < 2; ++stage) {
    stages.push_back({{"index", stage}, {"device", "cpu " + std::to_string(stage)}});
  }
  return {{"index", index}, {"stages", stages}};
}

/// Instance 2 computes while the others wait for it in the reduction.
Json made_instance(int index, int looks) {
  const double wobble = 0.02 * std::sin(looks * 0.7 + index);
  const double compute = index == 2 ? 0.85 : 0.6 + wobble;
  const double data = 0.08 + wobble / 2;
  const double idle = 0.02;
  return {{"index", index},
          {"pid", 4712 + index},
          {"alive", true},
          {"phase", "training"},
          {"step", looks * 3},
          {"samples_per_second", 510 + 10 * std::sin(looks * 0.3 + index)},
          {"memory_mib", 800 + index},
          {"cpu_percent", 97},
          {"time",
           {{"data", data},
            {"compute", compute},
            {"reduce", 1 - data - compute - idle},
            {"idle", idle}}},
          {"replicas", {made_replica(2 * index), made_replica(2 * index + 1)}}};
}

Json made_host(const std::string& name, int first, int looks) {
  return {{"name", name},
          {"instances", {made_instance(first, looks), made_instance(first + 1, looks)}}};
}

Json running_job(int looks) {
  return {{"id", "train"},
          {"name", "resnet20 on cifar10"},
          {"user", "ann"},
          {"state", "running"},
          {"epoch", 1 + looks / 40},
          {"step", looks * 3},
          {"restarts", 1},
          {"loss", 0.4 + 1.9 * std::exp(-looks / 40.0) + 0.03 * std::sin(looks * 1.3)},
          {"accuracy", 92 - 80 * std::exp(-looks / 50.0)},
          {"samples_per_second", 2040 + 40 * std::sin(looks * 0.3)},
          {"bottleneck",
           "uneven: the others waited 25 % of the time for instance 2, which computes longest; try "
           "--bind core, or look what else runs on its cores"},
          {"slowest", 2},
          {"hosts", {made_host("node-a", 0, looks), made_host("node-b", 2, looks)}}};
}

Json ended_job() {
  auto host = made_host("node-a", 0, 10);
  return {{"id", "done"},   {"name", "mlp <script>alert(1)</script> & \"friends\""},
          {"user", "ben"},  {"state", "ended"},
          {"step", 200},    {"loss", 0.12},
          {"hosts", {host}}};
}

}  // namespace

std::string FakeJobFeed::snapshot() {
  ++looks_;
  return Json{{"jobs", {running_job(looks_), ended_job()}}}.dump();
}

std::string FakeJobFeed::events(const std::string& job, int most) {
  if (job != "train") return "[]";
  Json events = Json::array();
  events.push_back({{"time", "2026-11-16T09:00:00.000Z"},
                    {"event", "start"},
                    {"instance", 0},
                    {"host", "node-a"}});
  events.push_back({{"time", "2026-11-16T09:00:41.500Z"},
                    {"event", "failure"},
                    {"instance", 1},
                    {"step", 20},
                    {"signal", "SIGKILL"}});
  events.push_back({{"time", "2026-11-16T09:00:41.600Z"},
                    {"event", "restart"},
                    {"instance", 1},
                    {"step", 20},
                    {"number", 1}});
  for (int i = 1; i <= looks_ / 10; ++i) {
    events.push_back({{"time", "2026-11-16T09:01:00.000Z"},
                      {"event", "checkpoint"},
                      {"step", i * 30},
                      {"seconds", 0.25}});
  }
  while (events.size() > static_cast<std::size_t>(most)) events.erase(0);
  return events.dump();
}

}  // namespace lockstep::testing

#include "lockstep/cli/bench_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/base/version.h"
#include "lockstep/launch/discover/host_discovery.h"
#include "lockstep/launch/discover/machine_discovery.h"
#include "lockstep/ui/table.h"

namespace lockstep::cli {
namespace {

std::string milliseconds(Seconds time) {
  return fmt::format("{:.2f} ms", time.count() * 1e3);
}

}  // namespace

Timing summarize(std::vector<Seconds> samples) {
  if (samples.empty()) throw Error(ErrorKind::Bug, "bench: no samples to summarize");
  std::sort(samples.begin(), samples.end());
  const auto quantile = [&](double q) {
    const auto rank = std::ceil(q * static_cast<double>(samples.size()));
    return samples[static_cast<std::size_t>(std::max(1.0, rank)) - 1];
  };
  return {quantile(0.5), quantile(0.99), static_cast<int>(samples.size())};
}

std::string BenchReport::to_table() const {
  ui::Table table({"work", "system", "median", "p99", "lockstep / peer"});
  for (const auto& row : rows) {
    table.add({row.work, row.system, milliseconds(row.timing.median), milliseconds(row.timing.p99),
               row.ratio ? fmt::format("{:.2f}", *row.ratio) : ""});
  }
  return table.to_string();
}

std::string BenchReport::to_json() const {
  const auto machine = launch::discover_machine();
  nlohmann::ordered_json json{{"bench", name},
                              {"host", launch::this_host()},
                              {"processor", machine.cpu_model},
                              {"cores", machine.usable_cores()},
                              {"version", std::string(lockstep::version())},
                              {"commit", std::string(commit())},
                              {"build", std::string(build_description())}};
  for (const auto& row : rows) {
    nlohmann::ordered_json entry{{"work", row.work},
                                 {"system", row.system},
                                 {"median_s", row.timing.median.count()},
                                 {"p99_s", row.timing.p99.count()},
                                 {"rounds", row.timing.rounds}};
    if (row.ratio) entry["ratio"] = *row.ratio;
    json["rows"].push_back(std::move(entry));
  }
  return json.dump(2) + "\n";
}

}  // namespace lockstep::cli

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

/// In the unit that leaves digits to compare.
std::string to_text(Seconds time) {
  const double seconds = time.count();
  if (seconds < 1e-3) return fmt::format("{:.1f} µs", seconds * 1e6);
  return fmt::format("{:.2f} ms", seconds * 1e3);
}

/// Two digits at least, however far ahead we are.
std::string ratio_text(double ratio) {
  return ratio < 0.1 ? fmt::format("{:.2g}", ratio) : fmt::format("{:.2f}", ratio);
}

std::vector<std::string> cells_of(const BenchRow& row, bool with_bandwidth) {
  std::vector<std::string> cells{row.work, row.system, to_text(row.timing.median),
                                 to_text(row.timing.p99)};
  if (with_bandwidth) {
    cells.push_back(row.transfer ? fmt::format("{:.3g} GB/s", row.transfer->bus_gb_s) : "");
  }
  cells.push_back(row.ratio ? ratio_text(*row.ratio) : "");
  return cells;
}

nlohmann::ordered_json to_json(const BenchRow& row) {
  nlohmann::ordered_json json{{"work", row.work},
                              {"system", row.system},
                              {"median_s", row.timing.median.count()},
                              {"p99_s", row.timing.p99.count()},
                              {"rounds", row.timing.rounds}};
  if (row.transfer) {
    json["size_bytes"] = row.transfer->size_bytes;
    json["instances"] = row.transfer->instances;
    json["bus_gb_s"] = row.transfer->bus_gb_s;
  }
  if (row.ratio) json["ratio"] = *row.ratio;
  return json;
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
  const bool with_bandwidth = std::any_of(
      rows.begin(), rows.end(), [](const BenchRow& row) { return row.transfer.has_value(); });
  std::vector<std::string> headings{"work", "system", "median", "p99"};
  if (with_bandwidth) headings.emplace_back("bus bandwidth");
  headings.emplace_back("lockstep / peer");
  ui::Table table(std::move(headings));
  for (const auto& row : rows) table.add(cells_of(row, with_bandwidth));
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
  for (const auto& row : rows) json["rows"].push_back(cli::to_json(row));
  return json.dump(2) + "\n";
}

}  // namespace lockstep::cli

#include "bench/driver/report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

#include "lockstep/base/error.h"
#include "lockstep/base/version.h"
#include "lockstep/launch/discover/host_discovery.h"
#include "lockstep/launch/discover/machine_discovery.h"
#include "lockstep/ui/table.h"

namespace lockstep::bench {
namespace {

/// Chooses the unit that leaves some digits before the decimal point.
std::string to_text(Seconds time) {
  const double seconds = time.count();
  if (seconds < 1e-3) return fmt::format("{:.1f} µs", seconds * 1e6);
  if (seconds < 1) return fmt::format("{:.2f} ms", seconds * 1e3);
  return fmt::format("{:.2f} s", seconds);
}

/// With at least two significant digits.
std::string ratio_text(double ratio) {
  return ratio < 0.1 ? fmt::format("{:.2g}", ratio) : fmt::format("{:.2f}", ratio);
}

/// The columns that only some benchmarks have.
struct OptionalColumns {
  bool bandwidth = false;
  bool images = false;
  bool peak = false;
  bool waiting = false;
};

OptionalColumns columns_of(const std::vector<Row>& rows) {
  OptionalColumns columns;
  for (const auto& row : rows) {
    columns.bandwidth |= row.transfer.has_value();
    columns.images |= row.images_per_second.has_value();
    columns.peak |= row.peak_share.has_value();
    columns.waiting |= row.data_share.has_value();
  }
  return columns;
}

std::vector<std::string> headings_of(const OptionalColumns& columns) {
  std::vector<std::string> headings{"work", "system", "median", "p99"};
  if (columns.bandwidth) headings.emplace_back("bus bandwidth");
  if (columns.images) headings.emplace_back("images/s");
  if (columns.peak) headings.emplace_back("of sgemm");
  if (columns.waiting) headings.emplace_back("waiting for data");
  headings.emplace_back("lockstep / peer");
  if (columns.images) headings.emplace_back("speed-up");
  return headings;
}

std::vector<std::string> cells_of(const Row& row, const OptionalColumns& columns) {
  std::vector<std::string> cells{row.work, row.system, to_text(row.timing.median),
                                 to_text(row.timing.p99)};
  if (columns.bandwidth) {
    cells.push_back(row.transfer ? fmt::format("{:.3g} GB/s", row.transfer->bus_gb_s) : "");
  }
  if (columns.images) {
    cells.push_back(row.images_per_second ? fmt::format("{:.0f}", *row.images_per_second) : "");
  }
  if (columns.peak) {
    cells.push_back(row.peak_share ? fmt::format("{:.0f} %", 100 * *row.peak_share) : "");
  }
  if (columns.waiting) {
    cells.push_back(row.data_share ? fmt::format("{:.2f} %", 100 * *row.data_share) : "");
  }
  cells.push_back(row.ratio ? ratio_text(*row.ratio) : "");
  if (columns.images) cells.push_back(row.ratio ? fmt::format("{:.3g}x", 1 / *row.ratio) : "");
  return cells;
}

nlohmann::ordered_json to_json(const Row& row) {
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
  if (row.images_per_second) json["images_per_second"] = *row.images_per_second;
  if (row.peak_share) json["peak_share"] = *row.peak_share;
  if (row.data_share) json["data_share"] = *row.data_share;
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

nlohmann::ordered_json report_head(const std::string& bench) {
  const auto machine = launch::discover_machine();
  return {{"bench", bench},
          {"host", launch::this_host()},
          {"processor", machine.cpu_model},
          {"cores", machine.usable_cores()},
          {"version", std::string(lockstep::version())},
          {"commit", std::string(commit())},
          {"build", std::string(build_description())}};
}

std::string Report::to_table() const {
  const auto columns = columns_of(rows);
  ui::Table table(headings_of(columns));
  for (const auto& row : rows) table.add(cells_of(row, columns));
  return table.to_string();
}

std::string Report::to_json() const {
  auto json = report_head(name);
  for (const auto& row : rows) json["rows"].push_back(bench::to_json(row));
  return json.dump(2) + "\n";
}

}  // namespace lockstep::bench

#pragma once

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::bench {

using Seconds = std::chrono::duration<double>;

/// The result of measuring one thing several times.
struct Timing {
  Seconds median{0};
  Seconds p99{0};
  int rounds = 0;
};

/// Throws `Bug` if there are no samples.
Timing summarize(std::vector<Seconds> samples);

/// The data that a collective moved, for rows that measure a collective.
struct Transfer {
  std::int64_t size_bytes = 0;
  int instances = 0;
  double bus_gb_s = 0;  ///< 10^9 bytes per second; docs/internals/performance.md derives it
};

/// One line of a benchmark's table.
struct Row {
  std::string work;
  std::string system;  ///< "lockstep", or the peer that was measured beside it
  Timing timing;
  std::optional<double>
      ratio{};  ///< lockstep's median over this peer's: lockstep is faster below 1
  std::optional<Transfer> transfer{};
  std::optional<double> images_per_second{};  ///< for rows that load data or train
  std::optional<double> peak_share{};         ///< of the speed of the BLAS, for rows that train
  std::optional<double> data_share{};         ///< share of the time spent waiting for data
};

/// The first fields of each file of results: host, processor, cores, compiler, flags and commit, so
/// that the origin of a number stays known.
nlohmann::ordered_json report_head(const std::string& bench);

/// The results of one `lockstep bench …`.
struct Report {
  std::string name;
  std::vector<Row> rows;

  /// Bus bandwidth, images/s and the shares get a column only if some row has a value for it.
  std::string to_table() const;
  /// Begins with `report_head`.
  std::string to_json() const;
};

}  // namespace lockstep::bench

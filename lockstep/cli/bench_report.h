#pragma once

#include <nlohmann/json_fwd.hpp>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace lockstep::cli {

using Seconds = std::chrono::duration<double>;

/// What repeated measurements of one thing come to.
struct Timing {
  Seconds median{0};
  Seconds p99{0};
  int rounds = 0;
};

/// Throws `Bug` where there are no samples.
Timing summarize(std::vector<Seconds> samples);

/// What a collective moved, for the rows that measure one.
struct Transfer {
  std::int64_t size_bytes = 0;
  int instances = 0;
  double bus_gb_s = 0;  ///< 10^9 bytes a second, as docs/performance.md derives them
};

/// One line of a benchmark's table.
struct BenchRow {
  std::string work;
  std::string system;  ///< "lockstep", or the peer that was measured beside it
  Timing timing;
  std::optional<double> ratio{};  ///< lockstep's median over this peer's: below 1 we are ahead
  std::optional<Transfer> transfer{};
  std::optional<double> images_per_second{};  ///< for the rows that load data or train
  std::optional<double> peak_share{};         ///< of what the BLAS reaches, for the rows that train
  std::optional<double> data_share{};         ///< of the time, spent waiting for data
};

/// What each file of results begins with: host, processor, cores, compiler, flags and commit, so
/// that a number can be placed later.
nlohmann::ordered_json report_head(const std::string& bench);

/// The results of one `lockstep bench …`, with what they were measured on.
struct BenchReport {
  std::string name;
  std::vector<BenchRow> rows;

  /// Bus bandwidth, images/s and the shares have a column where there is a row with one.
  std::string to_table() const;
  std::string to_json() const;
};

}  // namespace lockstep::cli

#include "bench/comm/measure_comm.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "bench/comm/job.h"
#include "bench/comm/protocol.h"
#include "bench/comm/systems.h"
#include "lockstep/base/error.h"
#include "lockstep/cli/byte_size.h"
#include "lockstep/launch/start/run_directory.h"

namespace lockstep::bench {
namespace {

using Clock = std::chrono::steady_clock;

/// Some peers count elements and bytes in an int.
constexpr std::int64_t kMostBytes = std::int64_t{1} << 30;

/// The length of a turn, if a repetition is shorter.
constexpr Seconds kTurn{0.25};
constexpr int kMostSamplesOfATurn = 100;
static_assert(kMostSamplesOfATurn < kMostRepetitions);

/// After this time, a cell gets only `kFewestRounds` rounds.
constexpr Seconds kCellTime{20};
constexpr int kFewestRounds = 5;

/// A private folder. The destructor removes it. If this process is killed, the next job removes it.
class Scratch {
 public:
  explicit Scratch(const topology::Environment& environment) : directory_(environment) {
    directory_.create();
  }
  ~Scratch() { directory_.remove(); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  std::string make_folder() {
    auto folder = fmt::format("{}/{}", directory_.path(), ++folders_);
    std::filesystem::create_directory(folder);
    return folder;
  }

 private:
  launch::RunDirectory directory_;
  int folders_ = 0;
};

/// A line of progress on a terminal.
class ProgressLine {
 public:
  ProgressLine() = default;
  ~ProgressLine() { show(""); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  void show(const std::string& text) const {
    if (on_terminal_) fmt::print(stderr, "\r\x1b[K{}", text);
  }

 private:
  bool on_terminal_ = ::isatty(STDERR_FILENO) == 1;
};

/// The measurements of one system in a cell.
struct Entry {
  Job& job;
  int samples_of_a_turn = 0;
  std::vector<Seconds> samples{};
};

using Jobs = std::vector<std::unique_ptr<Job>>;

void check_size(const Cell& cell) {
  const bool has_blocks =
      cell.collective == Collective::ReduceScatter || cell.collective == Collective::AllGather;
  const auto step = static_cast<std::int64_t>(sizeof(float)) * (has_blocks ? cell.instances : 1);
  if (cell.bytes > 0 && cell.bytes <= kMostBytes && cell.bytes % step == 0) return;
  const auto nearest = std::clamp(cell.bytes / step, std::int64_t{1}, kMostBytes / step) * step;
  throw Error(
      ErrorKind::Options,
      fmt::format("bench comm: --sizes: {} over {} instances takes f32, expected a multiple "
                  "of {} bytes up to {}, found {}",
                  name_of(cell.collective), cell.instances, step, cli::size_text(kMostBytes),
                  cell.bytes),
      fmt::format("--sizes {}", nearest));
}

/// All cells with this number of instances.
std::vector<Cell> cells_with(int instances, const CommOptions& options) {
  std::vector<Cell> cells;
  for (const auto bytes : options.sizes) cells.push_back({options.collective, bytes, instances});
  return cells;
}

Jobs start_jobs(const std::vector<System>& systems, int instances, Scratch& scratch,
                const topology::Environment& environment) {
  Jobs jobs;
  for (const auto& system : systems) {
    jobs.push_back(std::make_unique<Job>(system, instances, scratch.make_folder(), environment));
  }
  return jobs;
}

/// Lets a system work for the time of a turn. Returns the number of samples in that time.
int warm_up(Job& job, const Cell& cell) {
  const auto begin = Clock::now();
  int samples = 0;
  while (samples == 0 || (samples < kMostSamplesOfATurn && Clock::now() - begin < kTurn)) {
    job.measure(cell, 1);
    ++samples;
  }
  return samples;
}

void take_turn(Entry& entry, const Cell& cell) {
  // The first repetition wakes the processes up. It counts only if it is the only one.
  const int ignored = entry.samples_of_a_turn > 1 ? 1 : 0;
  const auto times = entry.job.measure(cell, entry.samples_of_a_turn + ignored);
  entry.samples.insert(entry.samples.end(), times.begin() + ignored, times.end());
}

std::vector<Entry> measure(const Jobs& jobs, const Cell& cell, int rounds) {
  for (const auto& job : jobs) job->verify(cell);
  std::vector<Entry> entries;
  for (const auto& job : jobs) entries.push_back({*job, warm_up(*job, cell)});
  const auto begin = Clock::now();
  for (int round = 0; round < rounds; ++round) {
    if (round >= kFewestRounds && Clock::now() - begin > kCellTime) break;
    for (auto& entry : entries) take_turn(entry, cell);
  }
  return entries;
}

void add_rows(Report& report, const Cell& cell, const std::vector<Entry>& entries) {
  const auto own = summarize(entries.front().samples);
  for (const auto& entry : entries) {
    const auto timing = summarize(entry.samples);
    Row row{.work = describe(cell), .system = entry.job.name(), .timing = timing};
    row.transfer = {cell.bytes, cell.instances, bus_bandwidth(cell, timing.median)};
    if (&entry != &entries.front()) row.ratio = own.median / timing.median;
    report.rows.push_back(std::move(row));
  }
}

}  // namespace

Report measure_comm(const CommOptions& options, const topology::Environment& environment) {
  for (const int instances : options.instances) {
    for (const auto& cell : cells_with(instances, options)) check_size(cell);
  }
  const auto systems = find_systems(options.against, environment);
  if (!systems.missing.empty()) {
    fmt::print(stderr, "lockstep: bench comm: not in this build, so not measured: {}\n",
               fmt::join(systems.missing, ", "));
  }

  Scratch scratch(environment);
  const ProgressLine progress;
  Report report{"comm", {}};
  for (const int instances : options.instances) {
    const auto jobs = start_jobs(systems.present, instances, scratch, environment);
    for (const auto& cell : cells_with(instances, options)) {
      progress.show(describe(cell));
      add_rows(report, cell, measure(jobs, cell, options.rounds));
    }
    for (const auto& job : jobs) job->finish();
  }
  return report;
}

}  // namespace lockstep::bench

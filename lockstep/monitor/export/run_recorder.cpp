#include "lockstep/monitor/export/run_recorder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <iterator>
#include <string_view>
#include <system_error>
#include <utility>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/strings.h"

namespace lockstep::monitor {
namespace {

/// After this number of points, a point is the mean of twice as many iterations.
constexpr std::int64_t kPointsOfOneDensity = 2048;

constexpr const char* kTraining = "train/";
constexpr const char* kEvaluation = "test/";
constexpr const char* kThroughput = "throughput";
constexpr const char* kLoss = "loss";

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// A line of the file: "12 0.25 train/loss".
struct RecordedPoint {
  std::string curve;
  ReportPoint point;
};

/// Returns nothing for any other line.
std::optional<RecordedPoint> parse_point(std::string_view line) {
  const auto step_end = line.find(' ');
  if (step_end == std::string_view::npos) return std::nullopt;
  const auto value_end = line.find(' ', step_end + 1);
  if (value_end == std::string_view::npos || value_end + 1 == line.size()) return std::nullopt;
  const auto step = parse_integer(line.substr(0, step_end));
  // Reads "nan" and "inf", too.
  double value = 0;
  const auto* const value_last = line.data() + value_end;
  const auto [end, error] = std::from_chars(line.data() + step_end + 1, value_last, value);
  if (!step || error != std::errc() || end != value_last) return std::nullopt;
  return RecordedPoint{std::string(line.substr(value_end + 1)),
                       {static_cast<double>(*step), value}};
}

/// "Loss", "Accuracy", or the name of the metric.
ReportChart titled_chart(const std::string& metric) {
  if (metric == kLoss) return {.title = "Loss"};
  if (metric == "acc") return {.title = "Accuracy", .unit = "%"};
  return {.title = metric};
}

}  // namespace

RunRecorder::RunRecorder(Options options) : options_(std::move(options)), metrics_{kLoss} {
  if (!options_.now) options_.now = steady_seconds;
  if (options_.file.empty()) return;
  const auto size = read_file_of_earlier_attempts();
  file_.reset(::open(options_.file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (file_ && ::ftruncate(file_.get(), size) != 0) file_.reset();
}

/// Returns the size of its whole lines: a crash may have cut the last one.
std::int64_t RunRecorder::read_file_of_earlier_attempts() {
  try {
    const auto text = read_file(options_.file);
    auto lines = split(text, '\n');
    const auto cut = std::ssize(lines.back());
    lines.pop_back();
    for (const auto line : lines) {
      if (const auto found = parse_point(line)) add(found->curve, found->point.x, found->point.y);
    }
    return std::ssize(text) - cut;
  } catch (const Error&) {
    return 0;  // The first attempt finds no file.
  }
}

/// A step that is recorded again replaces the points from that step on.
void RunRecorder::add(const std::string& curve, double step, double value) {
  auto& points = curves_[curve];
  while (!points.empty() && points.back().x >= step) points.pop_back();
  points.push_back({step, value});
  for (const std::string_view group : {kTraining, kEvaluation}) {
    if (!curve.starts_with(group)) continue;
    const auto metric = curve.substr(group.size());
    if (std::ranges::find(metrics_, metric) == metrics_.end()) metrics_.push_back(metric);
  }
}

void RunRecorder::record(const std::map<std::string, double>& values) {
  std::string lines;
  for (const auto& [curve, value] : values) {
    add(curve, static_cast<double>(step_), value);
    lines += fmt::format("{} {} {}\n", step_, value, curve);
  }
  append_to_file(lines);
}

/// One write, so that a crash cuts at most the last line.
void RunRecorder::append_to_file(const std::string& lines) noexcept {
  if (!file_) return;
  ssize_t written = 0;
  do {
    written = ::write(file_.get(), lines.data(), lines.size());
  } while (written < 0 && errno == EINTR);
  if (written != static_cast<ssize_t>(lines.size())) file_.reset();
}

void RunRecorder::flush() {
  if (pending_.count == 0) return;
  const auto pending = std::exchange(pending_, {});
  const auto count = static_cast<double>(pending.count);
  std::map<std::string, double> values;
  for (const auto& [curve, sum] : pending.sums) values[curve] = sum / count;
  if (pending.seconds > 0 && options_.samples_per_iteration > 0) {
    values[kThroughput] =
        static_cast<double>(options_.samples_per_iteration) * count / pending.seconds;
  }
  record(values);
  if (++num_points_ % kPointsOfOneDensity == 0) iterations_per_point_ *= 2;
}

void RunRecorder::on_epoch_begin(int epoch, std::int64_t iterations) {
  iterations_ = iterations;
  epoch_ = epoch;
  before_ = options_.now();
}

void RunRecorder::on_iteration(int epoch, std::int64_t iteration, const IterationResult& result) {
  const double now = options_.now();
  epoch_ = epoch;
  step_ = ((epoch - 1) * iterations_ + iteration) * options_.steps_per_iteration;
  if (before_) pending_.seconds += now - *before_;
  before_ = now;
  pending_.sums[kTraining + std::string(kLoss)] += result.loss;
  for (const auto& [name, value] : result.metrics) pending_.sums[kTraining + name] += value;
  if (++pending_.count >= iterations_per_point_) flush();
}

void RunRecorder::on_epoch_trained(int epoch, const StepResult& /*result*/) {
  epoch_ = epoch;
  step_ = epoch * iterations_ * options_.steps_per_iteration;
}

void RunRecorder::on_validated(int /*epoch*/, const StepResult& result) {
  std::map<std::string, double> values{{kEvaluation + std::string(kLoss), result.loss}};
  for (const auto& [name, value] : result.metrics) values[kEvaluation + name] = value;
  record(values);
}

bool RunRecorder::on_notice(const std::string& text) {
  notices_.push_back({.unix_s = unix_seconds(), .name = "note", .text = text});
  return false;
}

std::int64_t RunRecorder::first_step() const {
  const auto found = curves_.find(kTraining + std::string(kLoss));
  return found == curves_.end() ? 0 : static_cast<std::int64_t>(found->second.front().x);
}

ReportChart RunRecorder::chart_of(const std::string& metric) const {
  auto chart = titled_chart(metric);
  const std::pair<const char*, std::string> groups[] = {{kTraining, "training"},
                                                        {kEvaluation, options_.evaluation}};
  for (const auto& [group, name] : groups) {
    const auto found = curves_.find(group + metric);
    if (found != curves_.end()) chart.curves.push_back({.name = name, .points = found->second});
  }
  return chart;
}

std::vector<ReportChart> RunRecorder::charts() {
  flush();
  std::vector<ReportChart> charts;
  for (const auto& metric : metrics_) charts.push_back(chart_of(metric));
  const auto found = curves_.find(kThroughput);
  if (found != curves_.end()) {
    charts.push_back({.title = "Throughput",
                      .unit = "samples/s",
                      .curves = {{.name = "training", .points = found->second}}});
  }
  return charts;
}

}  // namespace lockstep::monitor

#include "lockstep/cli/train_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <utility>

#include "lockstep/base/clock.h"
#include "lockstep/cli/train_start.h"
#include "lockstep/cli/train_summary_text.h"
#include "lockstep/gpu/devices.h"
#include "lockstep/monitor/export/environment_facts.h"
#include "lockstep/monitor/export/report_file.h"
#include "lockstep/optimizer/schedule.h"
#include "lockstep/train/jobs/train_job.h"
#include "lockstep/train/planner/job_layout.h"

namespace lockstep::cli {
namespace {

constexpr std::size_t kMostInstancesShown = 64;
constexpr std::int64_t kLearningRatePoints = 400;

std::int64_t samples_per_iteration(const train::TrainRequest& request, int replicas) {
  return request.batch_size * request.gradient_accumulation * request.device_iterations * replicas;
}

monitor::RunRecorder::Options recorder_options(const train::TrainRequest& request,
                                               const topology::Identity& identity) {
  monitor::RunRecorder::Options options{
      .steps_per_iteration = request.device_iterations,
      .samples_per_iteration = samples_per_iteration(request, identity.num_replicas)};
  // Without a folder of the job there is no launcher that could restart it.
  if (!identity.run_dir.empty()) {
    options.file = (std::filesystem::path(identity.run_dir) / "report-curves").string();
  }
  return options;
}

void add_phases(const train::TrainSummary& summary, monitor::RunReport& to) {
  events::PhaseSeconds all;
  for (const auto& seconds : summary.seconds) all += seconds;
  to.phases.push_back({.name = "all instances", .seconds = all});
  if (summary.seconds.size() < 2) return;
  for (std::size_t i = 0; i < std::min(summary.seconds.size(), kMostInstancesShown); ++i) {
    to.phases.push_back({.name = fmt::format("instance {}", i), .seconds = summary.seconds[i]});
  }
}

/// The options that the launcher has followed. The process that trains knows only their defaults.
bool is_followed_by_launcher(const GivenOption& option) {
  return option.name == "--num-instances" || option.name == "--devices-per-replica" ||
         std::ranges::find(kLauncherOptions, option.name) != kLauncherOptions.end();
}

}  // namespace

TrainReport::TrainReport(const TrainArguments& arguments, const topology::Identity& identity,
                         std::string command, std::vector<monitor::ReportFact> libraries)
    : arguments_(arguments),
      identity_(identity),
      command_(std::move(command)),
      libraries_(std::move(libraries)),
      recorder_(recorder_options(arguments.request, identity)) {}

std::vector<monitor::ReportEvent> TrainReport::events() const {
  auto events = monitor::events_of_job(identity_.events_file);
  const auto& notices = recorder_.notices();
  events.insert(events.end(), notices.begin(), notices.end());
  std::ranges::stable_sort(events, {}, &monitor::ReportEvent::unix_s);
  return events;
}

std::vector<monitor::ReportFact> TrainReport::environment_facts() const {
  const auto& request = arguments_.request;
  const auto add = [](std::vector<monitor::ReportFact> more, std::vector<monitor::ReportFact>& to) {
    to.insert(to.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  std::vector<monitor::ReportFact> facts;
  add(monitor::machine_facts(), facts);
  if (train::device_of(request) == DeviceKind::Cuda) {
    facts.push_back({"GPU", gpu::describe_device(train::gpu_of(identity_.local_instance)).name});
  }
  if (!identity_.hosts.empty()) {
    std::string names;
    for (const auto& host : identity_.hosts) names += (names.empty() ? "" : ", ") + host.name;
    facts.push_back({"hosts of the job", names});
  }
  facts.push_back({"instances", fmt::format("{}", identity_.num_instances)});
  facts.push_back({"replicas", fmt::format("{}", identity_.num_replicas)});
  facts.push_back({"devices per replica", fmt::format("{}", identity_.devices_per_replica)});
  if (identity_.threads_per_device) {
    facts.push_back({"threads per device", fmt::format("{}", *identity_.threads_per_device)});
  }
  facts.push_back({"restarts", fmt::format("{}", identity_.restart_count)});
  add(libraries_, facts);
  add(monitor::build_facts(), facts);
  return facts;
}

std::vector<monitor::ReportFact> TrainReport::options() const {
  std::vector<monitor::ReportFact> options;
  for (const auto& option : arguments_.given) {
    options.push_back({option.name, option.value.value_or("yes")});
  }
  for (const auto& option : arguments_.defaults) {
    if (is_followed_by_launcher(option)) continue;
    options.push_back({option.name, option.value.value_or("") + " (default)"});
  }
  return options;
}

/// The rate that the schedule gives for the steps of the curves.
void TrainReport::add_learning_rate(monitor::RunReport& to) const {
  const auto& request = arguments_.request;
  const RunLength length{
      .steps_per_epoch = recorder_.iterations_per_epoch() * request.device_iterations,
      .epochs = std::max<std::int64_t>(1, request.epochs)};
  const auto first = recorder_.first_step();
  const auto last = recorder_.last_step();
  if (first < 1 || last < first || length.steps_per_epoch < 1) return;
  monitor::ReportCurve curve{.name = "learning rate"};
  const auto count = std::min(kLearningRatePoints, last - first + 1);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto step = count == 1 ? last : first + (last - first) * i / (count - 1);
    curve.points.push_back({static_cast<double>(step),
                            request.optimizer.lr() * factor(request.schedule, length, step - 1)});
  }
  to.charts.push_back({.title = "Learning rate", .curves = {std::move(curve)}});
}

monitor::RunReport TrainReport::begun_report() {
  const auto& request = arguments_.request;
  monitor::RunReport report{.title = fmt::format("{} on {}", request.model.model, request.dataset)};
  report.written_s = unix_seconds();
  report.charts = recorder_.charts();
  add_learning_rate(report);
  report.events = events();
  report.command = command_;
  report.environment = environment_facts();
  report.options = options();
  return report;
}

void TrainReport::write(const train::TrainSummary& summary) {
  auto report = begun_report();
  report.results = {{"epochs", fmt::format("{}", summary.epochs)},
                    {"optimizer steps", fmt::format("{}", summary.optimizer_steps)}};
  if (summary.resumed_at > 0) {
    report.results.push_back({"resumed", fmt::format("after step {}", summary.resumed_at)});
  }
  if (summary.epochs > 0) {
    report.results.push_back(
        {"training time", fmt::format("{:.1f} s, without evaluations", summary.train_seconds)});
    report.results.push_back(
        {"training loss", fmt::format("{:.4f}, mean of the last epoch", summary.train_loss)});
  }
  for (auto& fact : facts_of(summary)) report.results.push_back(std::move(fact));
  report.digest =
      fmt::format("{} (R={} T={})", summary.weights, summary.replicas, summary.threads_per_device);
  add_phases(summary, report);
  report.bottleneck = bottleneck_of(summary);
  publish(report);
}

void TrainReport::write(const Error& reason) {
  auto report = begun_report();
  report.outcome = reason.kind() == ErrorKind::Stopped ? monitor::RunReport::Outcome::Stopped
                                                       : monitor::RunReport::Outcome::Failed;
  report.reason = fmt::format("{} (exit code {}){}{}", reason.what(), exit_code(reason.kind()),
                              reason.hint().empty() ? "" : "; try: ", reason.hint());
  report.results = {{"epochs", fmt::format("{} of {}, not all of the last one", recorder_.epoch(),
                                           arguments_.request.epochs)},
                    {"optimizer steps", fmt::format("{}", recorder_.last_step())}};
  publish(report);
}

void TrainReport::publish(const monitor::RunReport& report) const {
  const auto& file = arguments_.request.report_file;
  monitor::write_report("train: --report " + file, file, report);
}

}  // namespace lockstep::cli

#include "lockstep/cli/monitor_tables.h"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "lockstep/base/strings.h"
#include "lockstep/ui/fitted_table.h"

namespace lockstep::cli {
namespace {

using monitor::Device;
using monitor::Health;
using monitor::HostSnapshot;
using monitor::StageOnDevice;
using monitor::WatchedInstance;
using monitor::WatchedJob;
using ui::FittedColumn;

constexpr auto kRight = FittedColumn::Align::Right;
constexpr auto kLeft = FittedColumn::Align::Left;
constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
constexpr double kMiB = 1024.0 * 1024.0;

/// Nothing to tell.
constexpr const char* kNone = "-";

std::string percent(const std::optional<double>& value) {
  return value ? fmt::format("{:.0f}%", *value) : kNone;
}

/// "1.2G", "340M".
std::string short_bytes(std::int64_t bytes) {
  const auto value = static_cast<double>(bytes);
  return value >= kGiB ? fmt::format("{:.1f}G", value / kGiB)
                       : fmt::format("{:.0f}M", value / kMiB);
}

/// "0:42", "12:05", "3:00:00", "5d 01:00".
std::string short_time(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e9));
  const auto minutes = whole / 60 % 60;
  const auto hours = whole / 3600;
  if (hours >= 100) return fmt::format("{}d {:02}:{:02}", hours / 24, hours % 24, minutes);
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

/// "950", "12.5k", "1.2M": a rate to three digits, as far as these say anything.
std::string short_rate(double rate) {
  if (!std::isfinite(rate) || rate <= 0) return kNone;
  if (rate >= 1e6) return fmt::format("{:.1f}M", rate / 1e6);
  if (rate >= 1e4) return fmt::format("{:.1f}k", rate / 1e3);
  return rate >= 100 ? fmt::format("{:.0f}", rate) : fmt::format("{:.1f}", rate);
}

std::string number(double value, int digits) {
  return std::isfinite(value) ? fmt::format("{:.{}f}", value, digits) : kNone;
}

std::string local_time(double unix_time) {
  const auto seconds = static_cast<time_t>(unix_time);
  tm parts{};
  std::array<char, 32> text{};
  if (::localtime_r(&seconds, &parts) == nullptr) return {};
  const auto length = ::strftime(text.data(), text.size(), "%F %T", &parts);
  return {text.data(), length};
}

/// "0-3", or with their stages "0.0,1.0".
std::string replicas_text(const std::vector<StageOnDevice>& stages) {
  if (stages.empty()) return kNone;
  std::vector<int> whole;
  std::string split;
  for (const auto& stage : stages) {
    if (!stage.is_split) whole.push_back(stage.replica);
    if (stage.is_split) split += fmt::format(",{}.{}", stage.replica, stage.stage);
  }
  std::ranges::sort(whole);
  if (whole.empty()) return split.substr(1);
  return to_ranges(whole) + split;
}

/// Of how many jobs these are: "0123456789ab", or "3 jobs".
std::string jobs_text(const std::vector<StageOnDevice>& stages) {
  std::vector<std::string> jobs;
  for (const auto& stage : stages) {
    if (std::ranges::find(jobs, stage.job) == jobs.end()) jobs.push_back(stage.job);
  }
  if (jobs.empty()) return kNone;
  return jobs.size() == 1 ? jobs.front() : fmt::format("{} jobs", jobs.size());
}

std::string device_name(const Device& device) {
  const auto kind = std::string(monitor::name_of(device.kind));
  return device.id ? fmt::format("{}:{}", kind, *device.id) : kind;
}

std::string memory_text(const Device& device) {
  if (device.memory_bytes == 0) return kNone;
  return fmt::format("{:.1f}/{:.1f} GiB", static_cast<double>(device.used_memory_bytes) / kGiB,
                     static_cast<double>(device.memory_bytes) / kGiB);
}

/// Whether hosts have to be told apart.
bool has_several_hosts(const HostSnapshot& snapshot) {
  return std::ranges::any_of(snapshot.devices,
                             [&](const Device& device) { return device.host != snapshot.host; });
}

std::string device_table(const HostSnapshot& snapshot, std::size_t width) {
  ui::FittedTable table({{"device", 100, kLeft, 0},
                         {"host", has_several_hosts(snapshot) ? 99 : 10, kLeft, 6},
                         {"model", 60, kLeft, 10},
                         {"cores", 70, kRight, 5},
                         {"memory", 80, kRight, 0},
                         {"load", 95, kRight, 0},
                         {"temp", 75, kRight, 0},
                         {"power", 74, kRight, 0},
                         {"job", 90, kLeft, 6},
                         {"replicas", 92, kLeft, 8}});
  for (const auto& device : snapshot.devices) {
    const auto& celsius = device.temperature_celsius;
    const auto& watts = device.power_watts;
    table.add({device_name(device), device.host, device.model.empty() ? kNone : device.model,
               to_ranges(device.cpus), memory_text(device), percent(device.load),
               celsius ? fmt::format("{:.0f} C", *celsius) : kNone,
               watts ? fmt::format("{:.0f} W", *watts) : kNone, jobs_text(device.stages),
               replicas_text(device.stages)});
  }
  return table.to_string(width);
}

/// A row of the second table.
struct Attached {
  const WatchedJob* job;
  const WatchedInstance* instance;
};

double seconds_since_start(const Attached& each, double now) {
  return now - each.instance->found.facts.start_time;
}

/// The larger, the earlier in the table; all alike where the order is that of jobs.
double rank_of(const Attached& each, ProcessOrder order, double now) {
  switch (order) {
    case ProcessOrder::Job:
      return 0;
    case ProcessOrder::Cpu:
      return each.instance->usage.cpu_percent.value_or(0);
    case ProcessOrder::Memory:
      return static_cast<double>(each.instance->usage.memory_bytes);
    case ProcessOrder::Samples:
      return each.instance->found.state.samples_per_second;
    case ProcessOrder::Time:
      return seconds_since_start(each, now);
  }
  return 0;
}

std::vector<Attached> attached_processes(const HostSnapshot& snapshot, ProcessOrder order) {
  std::vector<Attached> rows;
  for (const auto& job : snapshot.jobs) {
    for (const auto& instance : job.instances) {
      if (instance.found.health != Health::Damaged) rows.push_back({&job, &instance});
    }
  }
  std::ranges::stable_sort(rows, [&](const Attached& a, const Attached& b) {
    // A page can hold any number, and one that is none would have no place in an order.
    const auto first = rank_of(a, order, snapshot.unix_time);
    const auto second = rank_of(b, order, snapshot.unix_time);
    return (std::isnan(second) ? 0 : second) < (std::isnan(first) ? 0 : first);
  });
  return rows;
}

std::string phase_text(const WatchedInstance& instance) {
  const auto health = instance.found.health;
  return std::string(health == Health::Running ? monitor::name_of(instance.found.state.phase)
                                               : monitor::name_of(health));
}

/// "2:120/782": epoch, step, and how many there are.
std::string step_text(const monitor::InstanceState& state) {
  if (state.epoch <= 0) return kNone;
  const auto step = fmt::format("{}:{}", state.epoch, state.step);
  return state.steps_of_epoch > 0 ? fmt::format("{}/{}", step, state.steps_of_epoch) : step;
}

std::string replicas_text(const monitor::InstanceFacts& facts) {
  const auto last = facts.replicas.first + facts.replicas.count - 1;
  return facts.replicas.count == 1 ? std::to_string(last)
                                   : fmt::format("{}-{}", facts.replicas.first, last);
}

std::string device_ids_text(std::vector<int> ids) {
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return to_ranges(ids);
}

/// A part of the time that was measured.
std::string share_text(double part, const monitor::PhaseSeconds& all) {
  const auto total = all.data + all.compute + all.reduce + all.idle;
  if (!(total > 0)) return kNone;
  return percent(100 * part / total);
}

std::vector<FittedColumn> process_columns() {
  return {{"pid", 100, kRight, 0}, {"user", 70, kLeft, 6},       {"job", 95, kLeft, 6},
          {"inst", 93, kRight, 0}, {"repl", 88, kLeft, 4},       {"dev", 87, kLeft, 3},
          {"cpu", 90, kRight, 0},  {"mem", 89, kRight, 0},       {"time", 86, kRight, 0},
          {"step", 92, kRight, 0}, {"samples/s", 91, kRight, 0}, {"loss", 65, kRight, 0},
          {"acc", 64, kRight, 0},  {"data", 50, kRight, 0},      {"reduce", 49, kRight, 0},
          {"phase", 94, kLeft, 0}, {"collective", 30, kLeft, 8}, {"command", 80, kLeft, 8}};
}

std::string process_table(const HostSnapshot& snapshot, const MonitorView& view) {
  auto columns = process_columns();
  const bool has_hosts = has_several_hosts(snapshot);
  if (has_hosts) columns.insert(columns.begin(), {"host", 99, kLeft, 6});
  ui::FittedTable table(std::move(columns));
  for (const auto& each : attached_processes(snapshot, view.order)) {
    const auto& facts = each.instance->found.facts;
    const auto& state = each.instance->found.state;
    const auto& usage = each.instance->usage;
    std::vector<std::string> cells{std::to_string(facts.process),
                                   facts.user,
                                   each.job->id,
                                   fmt::format("{}/{}", facts.instance, facts.num_instances),
                                   replicas_text(facts),
                                   device_ids_text(facts.device_ids),
                                   percent(usage.cpu_percent),
                                   short_bytes(usage.memory_bytes + state.device_memory_bytes),
                                   short_time(seconds_since_start(each, snapshot.unix_time)),
                                   step_text(state),
                                   short_rate(state.samples_per_second),
                                   number(state.loss, 3),
                                   number(state.accuracy, 1),
                                   share_text(state.seconds.data, state.seconds),
                                   share_text(state.seconds.reduce, state.seconds),
                                   phase_text(*each.instance),
                                   state.is_in_collective ? state.collective : kNone,
                                   monitor::short_command(facts)};
    if (has_hosts) cells.insert(cells.begin(), facts.host);
    table.add(std::move(cells));
  }
  return table.to_string(view.width);
}

/// A line for each page that cannot be used, and each job that says nothing.
std::string notes(const HostSnapshot& snapshot) {
  std::string text;
  for (const auto& job : snapshot.jobs) {
    if (job.instances.empty()) {
      text += fmt::format("job {} runs, but its program publishes no status\n", job.id);
    }
    for (const auto& instance : job.instances) {
      if (instance.found.health != Health::Damaged) continue;
      text += fmt::format("job {}, instance {}: status page: {}\n", job.id,
                          instance.found.facts.instance, instance.found.problem);
    }
  }
  return text;
}

std::string count_text(std::size_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

}  // namespace

std::string_view name_of(ProcessOrder order) noexcept {
  switch (order) {
    case ProcessOrder::Job:
      return "job";
    case ProcessOrder::Cpu:
      return "cpu";
    case ProcessOrder::Memory:
      return "memory";
    case ProcessOrder::Samples:
      return "samples";
    case ProcessOrder::Time:
      return "time";
  }
  return "job";
}

const std::vector<std::string>& process_order_names() {
  static const std::vector<std::string> names{"job", "cpu", "memory", "samples", "time"};
  return names;
}

std::optional<ProcessOrder> parse_process_order(std::string_view name) {
  const auto& names = process_order_names();
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return std::nullopt;
  return static_cast<ProcessOrder>(found - names.begin());
}

std::string monitor_text(const HostSnapshot& snapshot, const MonitorView& view) {
  const auto processes = attached_processes(snapshot, view.order);
  auto text =
      fmt::format("{}  {}  {}, {}\n\n", snapshot.host, local_time(snapshot.unix_time),
                  count_text(snapshot.jobs.size(), "job"),
                  fmt::format("{} process{}", processes.size(), processes.size() == 1 ? "" : "es"));
  text += device_table(snapshot, view.width) + '\n';
  text += processes.empty() ? "no process publishes a status\n" : process_table(snapshot, view);
  const auto more = notes(snapshot);
  return more.empty() ? text : text + '\n' + more;
}

}  // namespace lockstep::cli

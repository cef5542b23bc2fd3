#include "lockstep/monitor/devices/cpu_sensors.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/strings.h"

namespace lockstep::monitor {
namespace {

namespace fs = std::filesystem;

std::string text_of(const std::string& path) {
  try {
    const auto text = read_file(path);
    return std::string(trim(text));
  } catch (const Error&) {
    return {};
  }
}

std::vector<std::string> entries_of(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       entry.increment(error)) {
    paths.push_back(entry->path().string());
  }
  std::ranges::sort(paths);
  return paths;
}

/// The drivers that measure a processor, and not a disk or a network card.
bool measures_processor(const std::string& name) {
  constexpr std::array<std::string_view, 5> kNames{"coretemp", "k10temp", "zenpower", "cpu_thermal",
                                                   "x86_pkg_temp"};
  return std::ranges::find(kNames, name) != kNames.end();
}

std::optional<double> thousandths(const std::string& path) {
  const auto number = parse_integer(text_of(path));
  if (!number) return std::nullopt;
  return static_cast<double>(*number) / 1000;
}

/// The warmest that a driver of the processor tells of.
std::optional<double> read_temperature(const std::string& root) {
  std::optional<double> warmest;
  const auto add = [&](const std::string& path) {
    const auto celsius = thousandths(path);
    if (celsius && (!warmest || *celsius > *warmest)) warmest = celsius;
  };
  for (const auto& sensor : entries_of(root + "/sys/class/hwmon")) {
    if (measures_processor(text_of(sensor + "/name"))) add(sensor + "/temp1_input");
  }
  for (const auto& zone : entries_of(root + "/sys/class/thermal")) {
    if (measures_processor(text_of(zone + "/type"))) add(zone + "/temp");
  }
  return warmest;
}

/// What all processors together have taken so far; only root may read it on most machines.
std::optional<double> read_joules(const std::string& root) {
  std::optional<double> joules;
  for (const auto& zone : entries_of(root + "/sys/class/powercap")) {
    if (!text_of(zone + "/name").starts_with("package")) continue;
    if (const auto microjoules = parse_integer(text_of(zone + "/energy_uj"))) {
      joules = joules.value_or(0) + static_cast<double>(*microjoules) * 1e-6;
    }
  }
  return joules;
}

}  // namespace

void CpuSensors::sample(double seconds_now) {
  sample_load();
  temperature_celsius_ = read_temperature(root_);
  sample_power(seconds_now);
}

void CpuSensors::sample_load() {
  std::istringstream lines(text_of(root_ + "/proc/stat"));
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::string name;
    fields >> name;
    if (!name.starts_with("cpu")) continue;
    const auto number = parse_integer(std::string_view(name).substr(3));
    if (!number) continue;  // the sum of all
    // user, nice, system, idle, iowait, irq, softirq, steal; what guests take is in the first.
    std::array<std::uint64_t, 8> counts{};
    for (auto& count : counts) fields >> count;
    Ticks now;
    for (const auto count : counts) now.all += count;
    now.busy = now.all - counts[3] - counts[4];
    auto& last = last_[static_cast<int>(*number)];
    // The kernel's count of idle time may go back a little.
    since_last_[static_cast<int>(*number)] = {
        .busy = now.busy - std::min(now.busy, last.busy),
        .all = now.all - std::min(now.all, last.all),
    };
    last = now;
  }
}

void CpuSensors::sample_power(double seconds_now) {
  const auto joules = read_joules(root_);
  power_watts_.reset();
  if (joules && last_energy_ && seconds_now > last_energy_->seconds &&
      *joules >= last_energy_->joules) {  // the counter begins anew now and then
    power_watts_ = (*joules - last_energy_->joules) / (seconds_now - last_energy_->seconds);
  }
  last_energy_.reset();
  if (joules) last_energy_ = Energy{*joules, seconds_now};
}

std::optional<double> CpuSensors::load(std::span<const int> cpus) const {
  Ticks total;
  for (const auto& [cpu, ticks] : since_last_) {
    if (!cpus.empty() && std::ranges::find(cpus, cpu) == cpus.end()) continue;
    total.busy += ticks.busy;
    total.all += ticks.all;
  }
  if (total.all == 0) return std::nullopt;
  return std::min(100.0, 100.0 * static_cast<double>(total.busy) / static_cast<double>(total.all));
}

}  // namespace lockstep::monitor

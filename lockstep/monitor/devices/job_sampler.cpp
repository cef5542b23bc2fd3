#include "lockstep/monitor/devices/job_sampler.h"

#include <algorithm>
#include <chrono>
#include <string_view>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/process_facts.h"
#include "lockstep/base/strings.h"
#include "lockstep/launch/discover/host_discovery.h"
#include "lockstep/monitor/devices/other_hosts.h"

namespace lockstep::monitor {
namespace {

double seconds_of(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// "0-3,8" as numbers. What is no such list has none.
std::vector<int> parse_ranges(std::string_view text) {
  constexpr std::int64_t kMostCpus = 65536;
  std::vector<int> numbers;
  for (const auto part : split(text, ',')) {
    const auto ends = split(part, '-');
    const auto first = parse_integer(ends.front());
    const auto last = parse_integer(ends.back());
    if (!first || !last || *first < 0 || *last < *first || *last > kMostCpus) return {};
    for (auto number = *first; number <= *last; ++number)
      numbers.push_back(static_cast<int>(number));
  }
  return numbers;
}

std::vector<int> allowed_cpus(int process) {
  constexpr std::string_view kLine = "Cpus_allowed_list:";
  try {
    const auto status = read_file("/proc/" + std::to_string(process) + "/status");
    for (const auto line : split(status, '\n')) {
      if (line.starts_with(kLine)) return parse_ranges(trim(line.substr(kLine.size())));
    }
  } catch (const Error&) {
    // It has just ended.
  }
  return {};
}

}  // namespace

bool is_alive(const WatchedInstance& instance) noexcept {
  return instance.found.health != Health::Ended && instance.found.health != Health::Damaged;
}

ProcessUsage JobSampler::usage_of(const InstanceFacts& facts, double now,
                                  SeenProcesses& seen_now) const {
  const auto counters = process_counters(facts.process);
  if (!counters || counters->start_ticks != facts.start_ticks) return {};
  ProcessUsage usage{.memory_bytes = private_memory_of(facts.process).value_or(0),
                     .cpus = allowed_cpus(facts.process)};
  const auto key = std::pair(facts.process, facts.start_ticks);
  const auto known = seen_.find(key);
  const auto last =
      known == seen_.end() ? Seen{.cpu_ticks = 0, .seconds = facts.start_time} : known->second;
  const auto seconds = now - last.seconds;
  if (seconds > 0) {
    const auto ticks = counters->cpu_ticks - std::min(counters->cpu_ticks, last.cpu_ticks);
    usage.cpu_percent = 100.0 * static_cast<double>(ticks) / ticks_per_second() / seconds;
  }
  seen_now[key] = {counters->cpu_ticks, now};
  return usage;
}

bool JobSampler::knows(int process) const {
  return std::ranges::any_of(seen_, [&](const auto& each) { return each.first.first == process; });
}

HostSnapshot JobSampler::sample() {
  auto snapshot = sample_this_machine();
  add_other_hosts(snapshot);
  return snapshot;
}

HostSnapshot JobSampler::sample_this_machine() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  HostSnapshot snapshot{.host = launch::this_host(),
                        .unix_time = seconds_of(now),
                        .steady_ns = std::chrono::steady_clock::now().time_since_epoch().count()};
  SeenProcesses seen_now;
  for (auto& job : find_jobs(environment_)) {
    WatchedJob watched{.id = job.id, .user = job.user, .folder = job.folder};
    for (auto& found : job.instances) {
      auto usage = usage_of(found.facts, snapshot.unix_time, seen_now);
      watched.instances.push_back({std::move(found), std::move(usage)});
    }
    snapshot.jobs.push_back(std::move(watched));
  }
  seen_ = std::move(seen_now);
  return snapshot;
}

}  // namespace lockstep::monitor

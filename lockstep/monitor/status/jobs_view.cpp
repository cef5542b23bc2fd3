#include "lockstep/monitor/status/jobs_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "lockstep/monitor/status/bottleneck.h"

namespace lockstep::monitor {
namespace {

/// A training instance publishes after each step, unless a disk or another instance delays it. The
/// limit is therefore three steps, and at least ten seconds. An evaluation, a checkpoint or the end
/// may take any time; the shares of the steps before remain valid meanwhile.
bool is_at_work(const WatchedInstance& instance, const RecentTime& recent, std::int64_t now_ns) {
  constexpr double kLeastPatience = 10;
  constexpr double kStepsOfPatience = 3;
  if (instance.found.health != Health::Running) return false;
  if (instance.found.state.phase != Phase::Training) return true;
  const auto age = 1e-9 * static_cast<double>(now_ns - instance.found.state.updated_ns);
  return age <= std::max(kLeastPatience, kStepsOfPatience * recent.seconds_per_step);
}

DashboardReplica shown_replica(const InstanceFacts& facts, int replica) {
  DashboardReplica shown{.index = replica};
  for (int stage = 0; stage < facts.devices_per_replica; ++stage) {
    const auto place = static_cast<std::size_t>(
        (replica - facts.replicas.first) * facts.devices_per_replica + stage);
    const bool is_known = place < facts.device_ids.size();
    shown.stage_devices.push_back(
        is_known ? fmt::format("{} {}", name_of(facts.device_kind), facts.device_ids[place])
                 : std::string());
  }
  return shown;
}

std::optional<TimeShares> time_shares(const PhaseSeconds& seconds) {
  const auto all = total(seconds);
  if (!(all > 0)) return std::nullopt;
  return TimeShares{.data = seconds.data / all,
                    .compute = seconds.compute / all,
                    .reduce = seconds.reduce / all,
                    .idle = seconds.idle / all};
}

/// `recent` is set if the instance is at work.
DashboardInstance shown_instance(const WatchedInstance& instance,
                                 const std::optional<PhaseSeconds>& recent) {
  const auto& [health, problem, path, facts, state] = instance.found;
  DashboardInstance shown{
      .host = facts.host, .index = facts.instance, .is_alive = is_alive(instance)};
  if (health == Health::Damaged) {
    shown.phase = "unreadable: " + problem;
    return shown;
  }
  const bool is_held_up = health == Health::Stopped || health == Health::Silent;
  shown.phase = is_held_up ? name_of(health) : name_of(state.phase);
  shown.process = facts.process;
  if (state.epoch > 0) shown.step = steps_so_far(state);
  shown.memory_mib = instance.usage.memory_bytes >> 20;
  shown.cpu_percent = instance.usage.cpu_percent;
  if (recent) shown.time = time_shares(*recent);
  // The last published rate is not the rate of an instance that is stopped, hangs or evaluates.
  if (recent && state.phase == Phase::Training) shown.samples_per_second = state.samples_per_second;
  for (int i = 0; i < facts.replicas.count; ++i) {
    shown.replicas.push_back(shown_replica(facts, facts.replicas.first + i));
  }
  return shown;
}

std::string title_of(const WatchedJob& job) {
  constexpr std::size_t kLongest = 120;
  for (const auto& instance : job.instances) {
    const auto command = short_command(instance.found.facts);
    if (!command.empty()) return command.substr(0, kLongest);
  }
  return job.id;
}

/// An instance whose process has ended: its place in the topology and its last step.
DashboardInstance as_ended(const DashboardInstance& instance) {
  return {.host = instance.host,
          .index = instance.index,
          .is_alive = false,
          .phase = "ended",
          .process = instance.process,
          .step = instance.step,
          .replicas = instance.replicas};
}

/// Adds the instances that a running job showed before and does not show now: they have ended.
/// Skips instances that the newest attempt does not have.
void keep_ended_instances(const DashboardJob& before, const WatchedJob& watched,
                          DashboardJob& now) {
  const InstanceFacts* newest = nullptr;
  for (const auto& [found, usage] : watched.instances) {
    if (found.health == Health::Damaged) continue;
    if (newest == nullptr || found.facts.restart_count > newest->restart_count) {
      newest = &found.facts;
    }
  }
  for (const auto& instance : before.instances) {
    const bool is_there = std::ranges::find(now.instances, instance.index,
                                            &DashboardInstance::index) != now.instances.end();
    const bool is_too_many = newest != nullptr && instance.index >= newest->num_instances;
    if (!is_there && !is_too_many) now.instances.push_back(as_ended(instance));
  }
  std::ranges::stable_sort(now.instances, {}, &DashboardInstance::index);
}

/// The last progress of a job, with instances that have ended.
DashboardJob with_ended_instances(DashboardJob job) {
  job.samples_per_second.reset();
  job.bottleneck.clear();
  job.slowest.reset();
  for (auto& instance : job.instances) instance = as_ended(instance);
  return job;
}

}  // namespace

DashboardJob JobsView::shown_job(const WatchedJob& job, std::int64_t now_ns) const {
  DashboardJob shown{.id = job.id, .name = title_of(job), .user = job.user};
  if (!job.instances.empty()) shown.restarts = job.instances.front().found.facts.restart_count;
  std::vector<InstanceTimes> times;
  std::set<std::string> hosts;
  for (const auto& instance : job.instances) {
    const auto& [health, problem, path, facts, state] = instance.found;
    const auto recent = recent_.of(job, instance);
    const bool works = is_at_work(instance, recent, now_ns);
    if (works) times.push_back({facts.instance, recent.seconds});
    shown.instances.push_back(
        shown_instance(instance, works ? std::optional(recent.seconds) : std::nullopt));
    if (health == Health::Damaged) continue;
    hosts.insert(facts.host);
    // The first instance tells the progress, because all instances agree on it.
    if (shown.epoch || state.epoch <= 0) continue;
    shown.epoch = state.epoch;
    shown.step = steps_so_far(state);
    shown.loss = state.loss;
    shown.accuracy = state.accuracy;
  }
  for (const auto& instance : shown.instances) {
    if (!shown.epoch || !instance.samples_per_second) continue;
    shown.samples_per_second = shown.samples_per_second.value_or(0) + *instance.samples_per_second;
  }
  if (const auto found = find_bottleneck(times, {.hosts = static_cast<int>(hosts.size())})) {
    shown.bottleneck = found->text;
    shown.slowest = found->slowest;
  }
  return shown;
}

std::vector<DashboardJob> JobsView::update(const HostSnapshot& snapshot) {
  recent_.add(snapshot);
  std::vector<DashboardJob> jobs;
  for (const auto& watched : snapshot.jobs) {
    const auto before = std::ranges::find_if(jobs_, [&](const DashboardJob& job) {
      return job.id == watched.id && job.user == watched.user && !job.end;
    });
    if (before != jobs_.end() && watched.instances.empty()) {
      jobs.push_back(with_ended_instances(*before));
      continue;
    }
    jobs.push_back(shown_job(watched, snapshot.steady_ns));
    if (before != jobs_.end()) keep_ended_instances(*before, watched, jobs.back());
  }
  // `jobs_` has the running jobs first, so jobs that have just ended stand before the others.
  const auto most = jobs.size() + kMostEnded;
  for (auto& job : jobs_) {
    const bool is_running = std::ranges::any_of(snapshot.jobs, [&](const WatchedJob& watched) {
      return watched.id == job.id && watched.user == job.user;
    });
    if (is_running || jobs.size() == most) continue;
    jobs.push_back(with_ended_instances(std::move(job)));
    jobs.back().end = JobEnd{};
  }
  jobs_ = jobs;
  return jobs;
}

}  // namespace lockstep::monitor

#include "lockstep/monitor/status/jobs_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "lockstep/monitor/status/bottleneck.h"

namespace lockstep::monitor {
namespace {

/// An instance, its recent time, and whether it is at work.
struct ObservedInstance {
  const WatchedInstance* watched = nullptr;
  RecentTime recent{};
  bool is_at_work = false;

  const InstanceFacts& facts() const { return watched->found.facts; }
  const InstanceState& state() const { return watched->found.state; }
  Health health() const { return watched->found.health; }
  /// The last published rate is not the rate of an instance that is stopped, hangs or evaluates.
  bool has_rate() const { return is_at_work && state().phase == Phase::Training; }
};

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

DashboardInstance shown_instance(const ObservedInstance& instance) {
  const auto& facts = instance.facts();
  const auto& state = instance.state();
  DashboardInstance shown{
      .host = facts.host, .index = facts.instance, .is_alive = is_alive(*instance.watched)};
  if (instance.health() == Health::Damaged) {
    shown.phase = "unreadable: " + instance.watched->found.problem;
    return shown;
  }
  const bool is_held_up =
      instance.health() == Health::Stopped || instance.health() == Health::Silent;
  shown.phase = is_held_up ? name_of(instance.health()) : name_of(state.phase);
  shown.process = facts.process;
  if (state.epoch > 0) shown.step = steps_so_far(state);
  if (instance.has_rate()) shown.samples_per_second = state.samples_per_second;
  shown.memory_mib = instance.watched->usage.memory_bytes >> 20;
  shown.cpu_percent = instance.watched->usage.cpu_percent;
  if (instance.is_at_work) shown.time = time_shares(instance.recent.seconds);
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

/// Sets the progress that the first instance has published, since all instances agree on it, and
/// the sum of all rates.
void add_progress(const std::vector<ObservedInstance>& instances, DashboardJob& to) {
  const auto first = std::ranges::find_if(instances, [](const ObservedInstance& instance) {
    return instance.health() != Health::Damaged && instance.state().epoch > 0;
  });
  if (first == instances.end()) return;
  const auto& state = first->state();
  to.epoch = state.epoch;
  to.step = steps_so_far(state);
  to.loss = state.loss;
  to.accuracy = state.accuracy;
  for (const auto& instance : instances) {
    if (!instance.has_rate()) continue;
    to.samples_per_second = to.samples_per_second.value_or(0) + instance.state().samples_per_second;
  }
}

void add_bottleneck(const std::vector<ObservedInstance>& instances, DashboardJob& to) {
  std::vector<InstanceTimes> times;
  std::set<std::string> hosts;
  for (const auto& instance : instances) {
    if (instance.health() != Health::Damaged) hosts.insert(instance.facts().host);
    if (instance.is_at_work) times.push_back({instance.facts().instance, instance.recent.seconds});
  }
  const auto found = find_bottleneck(times, {.hosts = static_cast<int>(hosts.size())});
  if (!found) return;
  to.bottleneck = found->text;
  to.slowest = found->slowest;
}

DashboardJob shown_job(const WatchedJob& job, const std::vector<ObservedInstance>& instances) {
  DashboardJob shown{.id = job.id, .name = title_of(job), .user = job.user};
  if (!job.instances.empty()) shown.restarts = job.instances.front().found.facts.restart_count;
  add_progress(instances, shown);
  add_bottleneck(instances, shown);
  for (const auto& instance : instances) shown.instances.push_back(shown_instance(instance));
  return shown;
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

/// The number of instances of the newest attempt; unset if no page of the job can be read.
std::optional<int> instances_of_newest_attempt(const WatchedJob& job) {
  const InstanceFacts* newest = nullptr;
  for (const auto& instance : job.instances) {
    const auto& facts = instance.found.facts;
    if (instance.found.health == Health::Damaged) continue;
    if (newest == nullptr || facts.restart_count > newest->restart_count) newest = &facts;
  }
  return newest == nullptr ? std::nullopt : std::optional(newest->num_instances);
}

/// Adds to a running job what it showed before and does not show now: instances that have ended
/// and, if all of them have, the progress.
void keep_ended_instances(const DashboardJob& before, const WatchedJob& watched,
                          DashboardJob& now) {
  const auto count = instances_of_newest_attempt(watched);
  for (const auto& instance : before.instances) {
    const bool is_there = std::ranges::find(now.instances, instance.index,
                                            &DashboardInstance::index) != now.instances.end();
    if (is_there || (count && instance.index >= *count)) continue;
    now.instances.push_back(as_ended(instance));
  }
  std::ranges::stable_sort(now.instances, {}, &DashboardInstance::index);
  if (!watched.instances.empty()) return;
  now.name = before.name;
  now.epoch = before.epoch;
  now.step = before.step;
  now.loss = before.loss;
  now.accuracy = before.accuracy;
  now.restarts = before.restarts;
}

DashboardJob as_ended(DashboardJob job) {
  if (job.end) return job;
  job.end = JobEnd{};
  job.samples_per_second.reset();
  job.bottleneck.clear();
  job.slowest.reset();
  for (auto& instance : job.instances) instance = as_ended(instance);
  return job;
}

}  // namespace

std::vector<DashboardJob> JobsView::update(const HostSnapshot& snapshot) {
  recent_.add(snapshot);
  std::vector<DashboardJob> jobs;
  for (const auto& watched : snapshot.jobs) {
    std::vector<ObservedInstance> instances;
    for (const auto& instance : watched.instances) {
      const auto recent = recent_.of(watched, instance);
      instances.push_back({&instance, recent, is_at_work(instance, recent, snapshot.steady_ns)});
    }
    jobs.push_back(shown_job(watched, instances));
    const auto before = std::ranges::find_if(jobs_, [&](const DashboardJob& job) {
      return job.id == watched.id && job.user == watched.user && !job.end;
    });
    if (before != jobs_.end()) keep_ended_instances(*before, watched, jobs.back());
  }
  // `jobs_` has the running jobs first, so jobs that have just ended stand before the others.
  const auto most = jobs.size() + kMostEnded;
  for (auto& job : jobs_) {
    const bool is_running = std::ranges::any_of(snapshot.jobs, [&](const WatchedJob& watched) {
      return watched.id == job.id && watched.user == job.user;
    });
    if (!is_running && jobs.size() < most) jobs.push_back(as_ended(std::move(job)));
  }
  jobs_ = jobs;
  return jobs;
}

}  // namespace lockstep::monitor

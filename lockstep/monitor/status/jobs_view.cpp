#include "lockstep/monitor/status/jobs_view.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>
#include <vector>

#include "lockstep/monitor/status/bottleneck.h"

namespace lockstep::monitor {
namespace {

using Json = nlohmann::ordered_json;

void set_number(Json& object, const char* name, double value) {
  if (std::isfinite(value)) object[name] = value;
}

Json replica_object(const InstanceFacts& facts, int replica) {
  Json stages = Json::array();
  for (int stage = 0; stage < facts.devices_per_replica; ++stage) {
    const auto place = static_cast<std::size_t>(
        (replica - facts.replicas.first) * facts.devices_per_replica + stage);
    Json object{{"index", stage}};
    if (place < facts.device_ids.size()) {
      object["device"] = fmt::format("{} {}", name_of(facts.device_kind), facts.device_ids[place]);
    }
    stages.push_back(std::move(object));
  }
  return {{"index", replica}, {"stages", std::move(stages)}};
}

Json time_object(const PhaseSeconds& seconds) {
  const auto all = total(seconds);
  if (!(all > 0)) return nullptr;
  return {{"data", seconds.data / all},
          {"compute", seconds.compute / all},
          {"reduce", seconds.reduce / all},
          {"idle", seconds.idle / all}};
}

/// An instance as it is shown.
struct ShownInstance {
  const WatchedInstance* watched = nullptr;
  RecentTime recent{};
  bool is_at_work = false;

  const InstanceFacts& facts() const { return watched->found.facts; }
  const InstanceState& state() const { return watched->found.state; }
  Health health() const { return watched->found.health; }
  /// What was told last is no rate of one that is stopped, hangs or evaluates.
  bool has_rate() const { return is_at_work && state().phase == Phase::Training; }
};

/// Between two signs of life of a training lies at most a step, unless a disk or a neighbour keeps
/// it: so three of them, and where they are short ten seconds. An evaluation, a checkpoint or the
/// end may take any time; what it did before is then still what it did last.
bool is_at_work(const WatchedInstance& instance, const RecentTime& recent, std::int64_t now_ns) {
  constexpr double kLeastPatience = 10;
  constexpr double kStepsOfPatience = 3;
  if (instance.found.health != Health::Running) return false;
  if (instance.found.state.phase != Phase::Training) return true;
  const auto age = 1e-9 * static_cast<double>(now_ns - instance.found.state.updated_ns);
  return age <= std::max(kLeastPatience, kStepsOfPatience * recent.seconds_per_step);
}

Json instance_object(const ShownInstance& instance) {
  const auto& facts = instance.facts();
  const auto& state = instance.state();
  Json object{{"index", facts.instance}, {"alive", is_alive(*instance.watched)}};
  if (instance.health() == Health::Damaged) {
    object["phase"] = "unreadable: " + instance.watched->found.problem;
    return object;
  }
  object["pid"] = facts.process;
  const bool is_held_up =
      instance.health() == Health::Stopped || instance.health() == Health::Silent;
  object["phase"] = is_held_up ? name_of(instance.health()) : name_of(state.phase);
  if (state.epoch > 0) object["step"] = steps_so_far(state);
  if (instance.has_rate()) set_number(object, "samples_per_second", state.samples_per_second);
  const auto& usage = instance.watched->usage;
  object["memory_mib"] = usage.memory_bytes >> 20;
  if (usage.cpu_percent) set_number(object, "cpu_percent", *usage.cpu_percent);
  if (instance.is_at_work) {
    if (auto time = time_object(instance.recent.seconds); !time.is_null()) {
      object["time"] = std::move(time);
    }
  }
  object["replicas"] = Json::array();
  for (int i = 0; i < facts.replicas.count; ++i) {
    object["replicas"].push_back(replica_object(facts, facts.replicas.first + i));
  }
  return object;
}

/// By host, in the order of instances.
Json hosts_of(const std::vector<ShownInstance>& instances) {
  Json hosts = Json::array();
  for (const auto& instance : instances) {
    const auto& name = instance.facts().host;
    if (hosts.empty() || hosts.back()["name"] != name) {
      hosts.push_back({{"name", name}, {"instances", Json::array()}});
    }
    hosts.back()["instances"].push_back(instance_object(instance));
  }
  return hosts;
}

std::string title_of(const WatchedJob& job) {
  constexpr std::size_t kLongest = 120;
  for (const auto& instance : job.instances) {
    const auto command = short_command(instance.found.facts);
    if (!command.empty()) return command.substr(0, kLongest);
  }
  return job.id;
}

/// What all instances agree on, as the first of them tells it, and the sum of their rates.
void add_progress(const std::vector<ShownInstance>& instances, Json& to) {
  const auto first = std::ranges::find_if(instances, [](const ShownInstance& instance) {
    return instance.health() != Health::Damaged && instance.state().epoch > 0;
  });
  if (first == instances.end()) return;
  const auto& state = first->state();
  to["epoch"] = state.epoch;
  to["step"] = steps_so_far(state);
  set_number(to, "loss", state.loss);
  set_number(to, "accuracy", state.accuracy);
  if (std::ranges::none_of(instances, &ShownInstance::has_rate)) return;
  double rate = 0;
  for (const auto& instance : instances) {
    if (instance.has_rate()) rate += instance.state().samples_per_second;
  }
  set_number(to, "samples_per_second", rate);
}

void add_bottleneck(const std::vector<ShownInstance>& instances, Json& to) {
  std::vector<InstanceTimes> times;
  std::set<std::string> hosts;
  for (const auto& instance : instances) {
    if (instance.health() != Health::Damaged) hosts.insert(instance.facts().host);
    if (instance.is_at_work) times.push_back({instance.facts().instance, instance.recent.seconds});
  }
  const auto found = find_bottleneck(times, {.hosts = static_cast<int>(hosts.size())});
  if (!found) return;
  to["bottleneck"] = found->text;
  to["slowest"] = found->slowest ? Json(*found->slowest) : Json(nullptr);
}

Json to_object(const WatchedJob& job, const std::vector<ShownInstance>& instances) {
  const bool is_running = job.instances.empty() || std::ranges::any_of(job.instances, is_alive);
  Json object{{"id", job.id},
              {"name", title_of(job)},
              {"user", job.user},
              {"state", is_running ? "running" : "ended"}};
  if (!job.instances.empty()) {
    object["restarts"] = job.instances.front().found.facts.restart_count;
  }
  add_progress(instances, object);
  add_bottleneck(instances, object);
  object["hosts"] = hosts_of(instances);
  return object;
}

}  // namespace

std::string JobsView::to_json(const HostSnapshot& snapshot) {
  recent_.add(snapshot);
  Json jobs = Json::array();
  for (const auto& job : snapshot.jobs) {
    std::vector<ShownInstance> instances;
    for (const auto& instance : job.instances) {
      const auto recent = recent_.of(job, instance);
      instances.push_back({&instance, recent, is_at_work(instance, recent, snapshot.steady_ns)});
    }
    jobs.push_back(to_object(job, instances));
  }
  return Json{{"jobs", std::move(jobs)}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lockstep::monitor

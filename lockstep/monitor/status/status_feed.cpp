#include "lockstep/monitor/status/status_feed.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/base/strings.h"
#include "lockstep/monitor/status/bottleneck.h"

namespace lockstep::monitor {
namespace {

using Json = nlohmann::ordered_json;

constexpr off_t kMostBytes = 256 << 10;  // of a log, from its end
constexpr const char* kEventsName = "events.jsonl";
constexpr const char* kEventsPathName = "events.path";
constexpr std::size_t kLongestName = 120;

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

/// Since the first step, not of the whole life of the process.
Json time_object(const PhaseSeconds& seconds) {
  const auto all = seconds.data + seconds.compute + seconds.reduce + seconds.idle;
  if (!(all > 0)) return nullptr;
  return {{"data", seconds.data / all},
          {"compute", seconds.compute / all},
          {"reduce", seconds.reduce / all},
          {"idle", seconds.idle / all}};
}

/// One whose host is silent may be.
bool is_alive(const WatchedInstance& instance) {
  return instance.found.health != Health::Ended && instance.found.health != Health::Damaged;
}

/// Optimizer steps since the training began: those of an epoch begin anew with each.
std::int64_t steps_so_far(const InstanceState& state) {
  return std::max<std::int64_t>(0, state.epoch - 1) * state.steps_of_epoch + state.step;
}

Json instance_object(const WatchedInstance& instance) {
  const auto& facts = instance.found.facts;
  const auto& state = instance.found.state;
  Json object{{"index", facts.instance}, {"alive", is_alive(instance)}};
  if (instance.found.health == Health::Damaged) {
    object["phase"] = "unreadable: " + instance.found.problem;
    return object;
  }
  object["pid"] = facts.process;
  const auto health = instance.found.health;
  const bool is_held_up = health == Health::Stopped || health == Health::Silent;
  object["phase"] = is_held_up ? name_of(health) : name_of(state.phase);
  if (state.epoch > 0) object["step"] = steps_so_far(state);
  set_number(object, "samples_per_second", state.samples_per_second);
  object["memory_mib"] = instance.usage.memory_bytes >> 20;
  if (instance.usage.cpu_percent) set_number(object, "cpu_percent", *instance.usage.cpu_percent);
  if (auto time = time_object(state.seconds); !time.is_null()) object["time"] = std::move(time);
  object["replicas"] = Json::array();
  for (int i = 0; i < facts.replicas.count; ++i) {
    object["replicas"].push_back(replica_object(facts, facts.replicas.first + i));
  }
  return object;
}

/// By host, in the order of instances.
Json hosts_of(const WatchedJob& job) {
  Json hosts = Json::array();
  for (const auto& instance : job.instances) {
    const auto& name = instance.found.facts.host;
    if (hosts.empty() || hosts.back()["name"] != name) {
      hosts.push_back({{"name", name}, {"instances", Json::array()}});
    }
    hosts.back()["instances"].push_back(instance_object(instance));
  }
  return hosts;
}

std::string title_of(const WatchedJob& job) {
  for (const auto& instance : job.instances) {
    const auto& command = instance.found.facts.command;
    if (command.empty()) continue;
    // The program's folder says little, and takes the room of what does.
    const auto program_end = std::min(command.find(' '), command.size());
    const auto slash = command.rfind('/', program_end);
    return command.substr(slash == std::string::npos ? 0 : slash + 1, kLongestName);
  }
  return job.id;
}

/// What all instances agree on, as the first of them tells it.
void add_progress(const WatchedJob& job, Json& to) {
  const auto first = std::ranges::find_if(job.instances, [](const WatchedInstance& instance) {
    return instance.found.health != Health::Damaged && instance.found.state.epoch > 0;
  });
  if (first == job.instances.end()) return;
  const auto& state = first->found.state;
  to["epoch"] = state.epoch;
  to["step"] = steps_so_far(state);
  set_number(to, "loss", state.loss);
  set_number(to, "accuracy", state.accuracy);
  double rate = 0;
  for (const auto& instance : job.instances) rate += instance.found.state.samples_per_second;
  set_number(to, "samples_per_second", rate);
}

void add_bottleneck(const WatchedJob& job, Json& to) {
  std::vector<InstanceTimes> times;
  for (const auto& instance : job.instances) {
    times.push_back({instance.found.facts.instance, instance.found.state.seconds});
  }
  const auto found = find_bottleneck(times);
  if (!found) return;
  to["bottleneck"] = found->text;
  to["slowest"] = found->slowest ? Json(*found->slowest) : Json(nullptr);
}

Json to_object(const WatchedJob& job) {
  const bool is_running = job.instances.empty() || std::ranges::any_of(job.instances, is_alive);
  Json object{{"id", job.id},
              {"name", title_of(job)},
              {"user", job.user},
              {"state", is_running ? "running" : "ended"}};
  if (!job.instances.empty()) {
    object["restarts"] = job.instances.front().found.facts.restart_count;
  }
  add_progress(job, object);
  add_bottleneck(job, object);
  object["hosts"] = hosts_of(job);
  return object;
}

/// The end of a regular file of this user's; nothing where it is none. Links are not followed, and
/// pipes not waited for.
std::string read_end(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (!file || ::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return {};
  if (info.st_uid != ::getuid()) return {};
  const auto begin = std::max<off_t>(0, info.st_size - kMostBytes);
  std::string text(static_cast<std::size_t>(info.st_size - begin), '\0');
  const auto count = ::pread(file.get(), text.data(), text.size(), begin);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  if (begin > 0) text.erase(0, text.find('\n') + 1);  // of the first line only the end is there
  return text;
}

std::string find_log(const std::string& folder) {
  const auto elsewhere = read_end(folder + "/" + kEventsPathName);
  return elsewhere.empty() ? folder + "/" + kEventsName : elsewhere;
}

}  // namespace

void leave_path_of_events(const std::string& folder, const std::string& events_file) {
  if (events_file != folder + "/" + kEventsName) {
    write_file(folder + "/" + kEventsPathName, events_file);
  }
}

StatusFeed::StatusFeed(topology::Environment environment, std::string job)
    : sampler_(std::move(environment)), job_(std::move(job)) {}

std::string StatusFeed::snapshot() {
  Json jobs = Json::array();
  folders_.clear();
  for (const auto& job : sampler_.sample().jobs) {
    if (!job_.empty() && job.id != job_) continue;
    folders_[job.id] = job.folder;
    jobs.push_back(to_object(job));
  }
  return Json{{"jobs", std::move(jobs)}}.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string StatusFeed::events(const std::string& job, int most) {
  const auto folder = folders_.find(job);
  if (folder == folders_.end()) return "[]";
  std::deque<Json> newest;
  const auto text = read_end(find_log(folder->second));
  for (const auto line : split(text, '\n')) {
    auto event = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!event.is_object()) continue;  // the last line may be on its way
    newest.push_back(std::move(event));
    if (std::ssize(newest) > most) newest.pop_front();
  }
  return Json(std::vector<Json>(newest.begin(), newest.end()))
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace lockstep::monitor

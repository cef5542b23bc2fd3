#include "lockstep/monitor/devices/snapshot_json.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <stdexcept>

#include "lockstep/base/strings.h"

namespace lockstep::monitor {
namespace {

using Json = nlohmann::ordered_json;

Json number(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json number(const std::optional<double>& value) {
  return value ? number(*value) : Json(nullptr);
}

Json to_object(const StageOnDevice& stage) {
  return {{"job", stage.job},
          {"instance", stage.instance},
          {"replica", stage.replica},
          {"stage", stage.stage},
          {"is_split", stage.is_split}};
}

Json to_object(const Device& device) {
  Json object{{"host", device.host},
              {"kind", name_of(device.kind)},
              {"id", device.id ? Json(*device.id) : Json(nullptr)},
              {"model", device.model},
              {"cpus", device.cpus},
              {"memory_bytes", device.memory_bytes},
              {"used_memory_bytes", device.used_memory_bytes},
              {"load_percent", number(device.load)},
              {"temperature_celsius", number(device.temperature_celsius)},
              {"power_watts", number(device.power_watts)},
              {"processes", device.processes},
              {"stages", Json::array()}};
  for (const auto& stage : device.stages) object["stages"].push_back(to_object(stage));
  return object;
}

Json facts_object(const InstanceFacts& facts) {
  return {{"host", facts.host},
          {"user", facts.user},
          {"pid", facts.process},
          {"command", facts.command},
          {"start_time", number(facts.start_time)},
          {"num_instances", facts.num_instances},
          {"restart_count", facts.restart_count},
          {"first_replica", facts.replicas.first},
          {"local_replicas", facts.replicas.count},
          {"num_replicas", facts.num_replicas},
          {"devices_per_replica", facts.devices_per_replica},
          {"threads_per_device", facts.threads_per_device},
          {"device_kind", name_of(facts.device_kind)},
          {"device_ids", facts.device_ids}};
}

Json state_object(const InstanceState& state, std::int64_t now_ns) {
  const auto age_ns = state.updated_ns == 0 ? 0 : now_ns - state.updated_ns;
  return {{"phase", name_of(state.phase)},
          {"epoch", state.epoch},
          {"step", state.step},
          {"steps_of_epoch", state.steps_of_epoch},
          {"samples", state.samples},
          {"samples_per_second", number(state.samples_per_second)},
          {"loss", number(state.loss)},
          {"accuracy", number(state.accuracy)},
          {"seconds",
           {{"data", number(state.seconds.data)},
            {"compute", number(state.seconds.compute)},
            {"reduce", number(state.seconds.reduce)},
            {"idle", number(state.seconds.idle)}}},
          {"device_memory_bytes", state.device_memory_bytes},
          {"collectives", state.collectives},
          {"collective", state.collective},
          {"is_in_collective", state.is_in_collective},
          {"seconds_since_update", static_cast<double>(age_ns) * 1e-9}};
}

Json to_object(const WatchedInstance& instance, std::int64_t now_ns) {
  const auto& found = instance.found;
  Json object{{"instance", found.facts.instance}, {"health", name_of(found.health)}};
  if (found.health == Health::Damaged) {
    object["problem"] = found.problem;
    object["path"] = found.path;
    return object;
  }
  object.update(facts_object(found.facts));
  object["cpu_percent"] = number(instance.usage.cpu_percent);
  object["memory_bytes"] = instance.usage.memory_bytes;
  object.update(state_object(found.state, now_ns));
  return object;
}

Json to_object(const WatchedJob& job, std::int64_t now_ns) {
  Json object{{"id", job.id}, {"user", job.user}, {"instances", Json::array()}};
  for (const auto& instance : job.instances) {
    object["instances"].push_back(to_object(instance, now_ns));
  }
  return object;
}

// The same backwards. What is missing or of another type throws what nlohmann::json does.

double to_number(const Json& value) {
  return value.is_null() ? std::numeric_limits<double>::quiet_NaN() : value.get<double>();
}

std::optional<double> to_optional(const Json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<double>());
}

/// The one of these that has the name. Throws `std::out_of_range` where none has.
template <typename Enum>
Enum named(const Json& name, std::initializer_list<Enum> all) {
  const auto& text = name.get_ref<const std::string&>();
  for (const auto each : all) {
    if (name_of(each) == text) return each;
  }
  throw std::out_of_range("snapshot: unknown name " + text);
}

DeviceKind to_device_kind(const Json& name) {
  return named(name, {DeviceKind::Cpu, DeviceKind::Cuda});
}

Health to_health(const Json& name) {
  return named(name,
               {Health::Running, Health::Stopped, Health::Ended, Health::Damaged, Health::Silent});
}

Phase to_phase(const Json& name) {
  return named(name, {Phase::Starting, Phase::Preparing, Phase::Training, Phase::Evaluating,
                      Phase::Saving, Phase::Finishing});
}

/// From another machine, and on its way to a terminal.
std::string to_text(const Json& value) {
  return printable(value.get<std::string>());
}

StageOnDevice to_stage(const Json& object) {
  return {.job = to_text(object.at("job")),
          .instance = object.at("instance"),
          .replica = object.at("replica"),
          .stage = object.at("stage"),
          .is_split = object.at("is_split")};
}

Device to_device(const Json& object) {
  Device device{.host = to_text(object.at("host")),
                .kind = to_device_kind(object.at("kind")),
                .model = to_text(object.at("model")),
                .cpus = object.at("cpus"),
                .memory_bytes = object.at("memory_bytes"),
                .used_memory_bytes = object.at("used_memory_bytes"),
                .load = to_optional(object.at("load_percent")),
                .temperature_celsius = to_optional(object.at("temperature_celsius")),
                .power_watts = to_optional(object.at("power_watts")),
                .processes = object.at("processes")};
  if (!object.at("id").is_null()) device.id = object.at("id").get<int>();
  for (const auto& stage : object.at("stages")) device.stages.push_back(to_stage(stage));
  return device;
}

InstanceFacts to_facts(const Json& object, const std::string& job) {
  return {.job = job,
          .host = to_text(object.at("host")),
          .user = to_text(object.at("user")),
          .command = to_text(object.at("command")),
          .process = object.at("pid"),
          .start_time = to_number(object.at("start_time")),
          .instance = object.at("instance"),
          .num_instances = object.at("num_instances"),
          .restart_count = object.at("restart_count"),
          .replicas = {object.at("first_replica"), object.at("local_replicas")},
          .num_replicas = object.at("num_replicas"),
          .devices_per_replica = object.at("devices_per_replica"),
          .threads_per_device = object.at("threads_per_device"),
          .device_kind = to_device_kind(object.at("device_kind")),
          .device_ids = object.at("device_ids")};
}

InstanceState to_state(const Json& object, std::int64_t now_ns) {
  const auto& seconds = object.at("seconds");
  const auto age = object.at("seconds_since_update").get<double>();
  return {.phase = to_phase(object.at("phase")),
          .epoch = object.at("epoch"),
          .step = object.at("step"),
          .steps_of_epoch = object.at("steps_of_epoch"),
          .samples = object.at("samples"),
          .samples_per_second = to_number(object.at("samples_per_second")),
          .loss = to_number(object.at("loss")),
          .accuracy = to_number(object.at("accuracy")),
          .seconds = {.data = to_number(seconds.at("data")),
                      .compute = to_number(seconds.at("compute")),
                      .reduce = to_number(seconds.at("reduce")),
                      .idle = to_number(seconds.at("idle"))},
          .device_memory_bytes = object.at("device_memory_bytes"),
          .collectives = object.at("collectives"),
          .collective = to_text(object.at("collective")),
          .is_in_collective = object.at("is_in_collective"),
          .updated_ns = now_ns - static_cast<std::int64_t>(std::clamp(age, 0.0, 1e9) * 1e9)};
}

WatchedInstance to_instance(const Json& object, const std::string& job, std::int64_t now_ns) {
  WatchedInstance instance;
  auto& found = instance.found;
  found.health = to_health(object.at("health"));
  if (found.health == Health::Damaged) {
    found.problem = to_text(object.at("problem"));
    found.path = to_text(object.at("path"));
    found.facts.instance = object.at("instance");
    return instance;
  }
  found.facts = to_facts(object, job);
  found.state = to_state(object, now_ns);
  instance.usage.cpu_percent = to_optional(object.at("cpu_percent"));
  instance.usage.memory_bytes = object.at("memory_bytes");
  return instance;
}

WatchedJob to_job(const Json& object, std::int64_t now_ns) {
  WatchedJob job{.id = to_text(object.at("id")), .user = to_text(object.at("user"))};
  for (const auto& instance : object.at("instances")) {
    job.instances.push_back(to_instance(instance, job.id, now_ns));
  }
  return job;
}

HostSnapshot to_snapshot(const Json& object) {
  // Any time will do that is later than what is told of.
  HostSnapshot snapshot{.host = to_text(object.at("host")),
                        .unix_time = to_number(object.at("time")),
                        .steady_ns = std::numeric_limits<std::int64_t>::max() / 2};
  for (const auto& device : object.at("devices")) snapshot.devices.push_back(to_device(device));
  for (const auto& job : object.at("jobs")) {
    snapshot.jobs.push_back(to_job(job, snapshot.steady_ns));
  }
  return snapshot;
}

}  // namespace

std::optional<HostSnapshot> parse_snapshot(const std::string& text) {
  try {
    return to_snapshot(Json::parse(text));
  } catch (const Json::exception&) {
    return std::nullopt;
  } catch (const std::out_of_range&) {
    return std::nullopt;
  }
}

std::string to_json(const HostSnapshot& snapshot) {
  Json object{{"host", snapshot.host},
              {"time", number(snapshot.unix_time)},
              {"devices", Json::array()},
              {"jobs", Json::array()}};
  for (const auto& device : snapshot.devices) object["devices"].push_back(to_object(device));
  for (const auto& job : snapshot.jobs) {
    object["jobs"].push_back(to_object(job, snapshot.steady_ns));
  }
  // What a name of a folder holds need not be UTF-8.
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::monitor

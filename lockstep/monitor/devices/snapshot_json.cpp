#include "lockstep/monitor/devices/snapshot_json.h"

#include <nlohmann/json.hpp>

#include <cmath>

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
          {"stage", stage.stage}};
}

Json to_object(const Device& device, const std::string& host) {
  Json object{{"host", host},
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

}  // namespace

std::string to_json(const HostSnapshot& snapshot) {
  Json object{{"host", snapshot.host},
              {"time", number(snapshot.unix_time)},
              {"devices", Json::array()},
              {"jobs", Json::array()}};
  for (const auto& device : snapshot.devices) {
    object["devices"].push_back(to_object(device, snapshot.host));
  }
  for (const auto& job : snapshot.jobs) {
    object["jobs"].push_back(to_object(job, snapshot.steady_ns));
  }
  // What a name of a folder holds need not be UTF-8.
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::monitor

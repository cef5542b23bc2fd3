#include "lockstep/launch/hosts/wire.h"

#include <nlohmann/json.hpp>

#include <chrono>

namespace lockstep::launch {
namespace {

using events::ExitStatus;
using events::Seconds;
using events::Stream;

template <typename Value>
Message or_null(const std::optional<Value>& value) {
  return value ? Message(*value) : Message();
}

Message or_null(const std::optional<Seconds>& value) {
  return value ? Message(value->count()) : Message();
}

std::optional<std::int64_t> step_in(const Message& message) {
  const auto& step = message.at("step");
  return step.is_null() ? std::nullopt : std::optional(step.get<std::int64_t>());
}

Message to_message(const ExitStatus& status) {
  return {status.code, status.signal};
}

ExitStatus to_status(const Message& message) {
  return {.code = message.at(0).get<int>(), .signal = message.at(1).get<int>()};
}

template <typename Value>
Value get(const Message& message, const char* name) {
  return message.at(name).get<Value>();
}

events::InstanceStarted to_started(const Message& message) {
  return {.instance = get<int>(message, "instance"),
          .host = get<std::string>(message, "host"),
          .pid = get<pid_t>(message, "pid"),
          .cpus = get<std::vector<int>>(message, "cpus"),
          .attempt = get<int>(message, "attempt"),
          .step = step_in(message)};
}

events::InstanceOutput to_output(const Message& message) {
  return {.instance = get<int>(message, "instance"),
          .stream = get<bool>(message, "err") ? Stream::Stderr : Stream::Stdout,
          .lines = message.at("lines").get_ref<const std::string&>(),
          .progress = message.at("progress").get_ref<const std::string&>()};
}

events::InstanceEnded to_ended(const Message& message) {
  return {.instance = get<int>(message, "instance"),
          .pid = get<pid_t>(message, "pid"),
          .status = to_status(message.at("status")),
          .run_time = Seconds(get<double>(message, "seconds")),
          .step = step_in(message)};
}

events::InstanceFailed to_failed(const Message& message) {
  const auto& stopped = message.at("stopped");
  return {
      .instance = get<int>(message, "instance"),
      .host = get<std::string>(message, "host"),
      .pid = get<pid_t>(message, "pid"),
      .status = to_status(message.at("status")),
      .run_time = Seconds(get<double>(message, "seconds")),
      .last_error_lines = get<std::vector<std::string>>(message, "last"),
      .stopped = stopped.is_null() ? std::nullopt : std::optional(Seconds(stopped.get<double>())),
      .step = step_in(message)};
}

events::InstanceStalled to_stalled(const Message& message) {
  return {.instance = get<int>(message, "instance"),
          .pid = get<pid_t>(message, "pid"),
          .stopped = Seconds(get<double>(message, "seconds")),
          .step = step_in(message)};
}

}  // namespace

Message to_message(const events::InstanceStarted& event) {
  return {{"is", "started"},
          {"instance", event.instance},
          {"host", event.host},
          {"pid", event.pid},
          {"cpus", event.cpus},
          {"attempt", event.attempt},
          {"step", or_null(event.step)}};
}

Message to_message(const events::InstanceOutput& event) {
  return {{"is", "output"},
          {"instance", event.instance},
          {"err", event.stream == Stream::Stderr},
          {"lines", std::string(event.lines)},
          {"progress", std::string(event.progress)}};
}

Message to_message(const events::InstanceEnded& event) {
  return {{"is", "ended"},
          {"instance", event.instance},
          {"pid", event.pid},
          {"status", to_message(event.status)},
          {"seconds", event.run_time.count()},
          {"step", or_null(event.step)}};
}

Message to_message(const events::InstanceFailed& event) {
  return {{"is", "failed"},
          {"instance", event.instance},
          {"host", event.host},
          {"pid", event.pid},
          {"status", to_message(event.status)},
          {"seconds", event.run_time.count()},
          {"last", event.last_error_lines},
          {"stopped", or_null(event.stopped)},
          {"step", or_null(event.step)}};
}

Message to_message(const events::InstanceStalled& event) {
  return {{"is", "stalled"},
          {"instance", event.instance},
          {"pid", event.pid},
          {"seconds", event.stopped.count()},
          {"step", or_null(event.step)}};
}

Message to_message(const events::LeftoversEnded& event) {
  return {{"is", "leftovers"}, {"processes", event.processes}};
}

Message to_message(const events::Warning& event) {
  return {{"is", "warning"}, {"text", event.text}};
}

std::optional<HostEvent> to_event(const Message& message) {
  const auto kind = kind_of(message);
  if (kind == "started") return to_started(message);
  if (kind == "output") return to_output(message);
  if (kind == "ended") return to_ended(message);
  if (kind == "failed") return to_failed(message);
  if (kind == "stalled") return to_stalled(message);
  if (kind == "leftovers") {
    return events::LeftoversEnded{get<std::vector<std::string>>(message, "processes")};
  }
  if (kind == "warning") return events::Warning{get<std::string>(message, "text")};
  return std::nullopt;
}

/// Who an instance is goes as it will be told itself: by its variables.
Message to_message(const PlannedInstance& instance) {
  topology::Environment contract;
  write_identity(contract, instance.identity, {});
  return {{"identity", to_message(contract)},  {"host", instance.host},
          {"cores", instance.cores},           {"cpus", instance.cpus},
          {"stages", instance.stages_on_host}, {"usable", instance.usable_cores}};
}

PlannedInstance to_planned_instance(const Message& message) {
  PlannedInstance instance;
  instance.identity = topology::read_identity(to_environment(message.at("identity")));
  instance.host = get<std::string>(message, "host");
  instance.cores = get<std::vector<int>>(message, "cores");
  instance.cpus = get<std::vector<int>>(message, "cpus");
  instance.stages_on_host = get<int>(message, "stages");
  instance.usable_cores = get<int>(message, "usable");
  return instance;
}

Message to_message(const topology::Machine& machine) {
  auto cores = Message::array();
  for (const auto& core : machine.cores) {
    cores.push_back({{"node", core.numa_node}, {"cpus", core.cpus}});
  }
  return {{"model", machine.cpu_model},
          {"memory", machine.memory_bytes},
          {"cores", std::move(cores)},
          {"quota", or_null(machine.cpu_quota)}};
}

topology::Machine to_machine(const Message& message) {
  topology::Machine machine;
  machine.cpu_model = get<std::string>(message, "model");
  machine.memory_bytes = get<std::int64_t>(message, "memory");
  for (const auto& core : message.at("cores")) {
    machine.cores.push_back({get<int>(core, "node"), get<std::vector<int>>(core, "cpus")});
  }
  if (const auto& quota = message.at("quota"); !quota.is_null()) {
    machine.cpu_quota = quota.get<double>();
  }
  return machine;
}

Message to_message(const topology::Environment& environment) {
  return Message(environment.variables());
}

topology::Environment to_environment(const Message& message) {
  return topology::Environment(message.get<std::map<std::string, std::string>>());
}

std::string kind_of(const Message& message) {
  for (const auto* name : {"is", "do"}) {
    const auto found = message.find(name);
    if (found != message.end() && found->is_string()) return found->get<std::string>();
  }
  return {};
}

double seconds_of_day() {
  using namespace std::chrono;
  return duration<double>(system_clock::now().time_since_epoch()).count();
}

}  // namespace lockstep::launch

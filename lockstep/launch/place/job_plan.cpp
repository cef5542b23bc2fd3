#include "lockstep/launch/place/job_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "lockstep/base/error.h"

namespace lockstep::launch {
namespace {

using topology::Machine;
using topology::Placement;

void check(const RunOptions& options) {
  const auto require = [](bool holds, const std::string& what) {
    if (!holds) throw Error(ErrorKind::Options, "run: " + what);
  };
  require(options.threads_per_device.value_or(1) >= 1,
          fmt::format("--threads-per-device is {}, expected at least 1",
                      options.threads_per_device.value_or(1)));
  require(options.max_restarts >= 0,
          fmt::format("--max-restarts is {}, expected at least 0", options.max_restarts));
  const auto require_seconds = [&](events::Seconds value, const char* option) {
    constexpr double kMost = 1e7;
    require(value.count() >= 0 && value.count() <= kMost,
            fmt::format("{} is {}, expected 0 to {:.0f} seconds", option, value.count(), kMost));
  };
  require_seconds(options.stall_timeout, "--stall-timeout");
  require_seconds(options.grace_period, "--grace-period");
}

/// "NAME=value", where the name is not one that the launcher itself sets.
std::pair<std::string, std::string> parse_variable(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error(ErrorKind::Options, fmt::format("run: --env is '{}', expected NAME=value", text));
  }
  auto name = text.substr(0, equals);
  topology::Environment own;
  write_identity(own, {}, {});
  if (own.has(name)) {
    throw Error(ErrorKind::Options, fmt::format("run: --env {}: the launcher sets this", name),
                "use the option for it, or another name");
  }
  return {std::move(name), text.substr(equals + 1)};
}

/// The cores of each instance, in the order of the instances.
std::vector<std::vector<int>> bind_all(const Placement& placement, const Machine& machine,
                                       topology::BindPolicy policy) {
  std::vector<std::vector<int>> cores;
  for (std::size_t host = 0; host < placement.hosts.size(); ++host) {
    std::vector<int> stages;
    for (const auto& place : placement.on_host(static_cast<int>(host))) {
      stages.push_back(place.replicas.count * placement.shape.devices_per_replica);
    }
    if (stages.empty()) continue;
    auto local = topology::bind(machine, stages, policy);
    std::move(local.begin(), local.end(), std::back_inserter(cores));
  }
  return cores;
}

std::vector<int> cpus_of(const std::vector<int>& cores, const Machine& machine) {
  std::vector<int> cpus;
  for (const int core : cores) {
    const auto& own = machine.cores.at(static_cast<std::size_t>(core)).cpus;
    cpus.insert(cpus.end(), own.begin(), own.end());
  }
  std::sort(cpus.begin(), cpus.end());
  return cpus;
}

topology::Identity identify(const JobPlan& plan, const topology::InstancePlace& place,
                            int usable_cores) {
  const auto& placement = plan.placement;
  const int devices = topology::devices_on_host(usable_cores, plan.threads_per_device,
                                                placement.stages_on_host(place.host));
  topology::Identity identity;
  identity.launched_by = topology::LaunchedBy::Lockstep;
  identity.instance = place.instance;
  identity.num_instances = placement.shape.instances;
  identity.local_instance = place.local_instance;
  identity.num_local_instances = static_cast<int>(placement.on_host(place.host).size());
  identity.num_replicas = placement.shape.replicas;
  identity.local_replicas = place.replicas;
  identity.devices_per_replica = placement.shape.devices_per_replica;
  identity.device_ids = topology::device_ids(placement, place.instance, devices);
  identity.threads_per_device = plan.threads_per_device;
  return identity;
}

}  // namespace

JobPlan plan_job(const RunOptions& options, std::vector<topology::Host> hosts,
                 const Machine& machine) {
  check(options);
  JobPlan plan;
  plan.placement = topology::place(
      std::move(hosts), {.replicas = options.num_replicas.value_or(options.num_instances),
                         .instances = options.num_instances,
                         .devices_per_replica = options.devices_per_replica});
  const int cores = machine.usable_cores();
  plan.threads_per_device =
      options.threads_per_device.value_or(topology::threads_per_device(cores, plan.placement));
  for (const auto& variable : options.environment) {
    plan.environment.push_back(parse_variable(variable));
  }

  const auto bound_cores = bind_all(plan.placement, machine, options.bind);
  for (const auto& place : plan.placement.instances) {
    PlannedInstance instance;
    instance.identity = identify(plan, place, cores);
    instance.identity.stall_timeout = options.stall_timeout;
    if (!options.cache_path.empty()) {
      instance.identity.cache_path = std::filesystem::absolute(options.cache_path).string();
    }
    instance.host = plan.placement.hosts[static_cast<std::size_t>(place.host)].name;
    instance.cores = bound_cores[static_cast<std::size_t>(place.instance)];
    instance.cpus = cpus_of(instance.cores, machine);
    plan.instances.push_back(std::move(instance));
    const int threads = plan.placement.stages_on_host(place.host) * plan.threads_per_device;
    plan.more_threads_than_cores = plan.more_threads_than_cores || threads > cores;
  }
  return plan;
}

}  // namespace lockstep::launch

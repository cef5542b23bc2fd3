#include "lockstep/launch/place/job_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/launch/place/shrink.h"

namespace lockstep::launch {
namespace {

using topology::Machine;

void check(const RunOptions& options) {
  const auto require = [](bool holds, const std::string& what) {
    if (!holds) throw Error(ErrorKind::Options, "run: " + what);
  };
  require(options.threads_per_device.value_or(1) >= 1,
          fmt::format("--threads-per-device is {}, expected at least 1",
                      options.threads_per_device.value_or(1)));
  require(options.max_restarts >= 0,
          fmt::format("--max-restarts is {}, expected at least 0", options.max_restarts));
  require(!options.shrink || options.max_restarts >= kFailuresBeforeShrinking,
          fmt::format("--shrink takes effect with the restart after {0} failures in a row, but "
                      "--max-restarts is {1}, expected at least {0}",
                      kFailuresBeforeShrinking, options.max_restarts));
  const auto require_seconds = [&](events::Seconds value, const char* option) {
    constexpr double kMost = 1e7;
    require(value.count() >= 0 && value.count() <= kMost,
            fmt::format("{} is {}, expected 0 to {:.0f} seconds", option, value.count(), kMost));
  };
  require_seconds(options.stall_timeout, "--stall-timeout");
  require_seconds(options.grace_period, "--grace-period");
  require(
      !options.chaos || !options.chaos->has(FaultKind::Stop) || options.stall_timeout.count() > 0,
      "--chaos stops instances, which nobody would notice: --stall-timeout is 0");
}

/// "NAME=value", where the name is not one that the launcher itself sets.
std::pair<std::string, std::string> parse_variable(const std::string& text) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error(ErrorKind::Options, fmt::format("run: --env is '{}', expected NAME=value", text));
  }
  auto name = text.substr(0, equals);
  topology::Environment own;
  topology::Identity full;
  full.kept_memory = 0;
  full.events_file = "";
  full.hosts = {{}};
  full.listener = 0;
  write_identity(own, full, {});
  if (own.has(name)) {
    throw Error(ErrorKind::Options, fmt::format("run: --env {}: the launcher sets this", name),
                "use the option for it, or another name");
  }
  return {std::move(name), text.substr(equals + 1)};
}

int devices_of(const JobPlan& plan, int host, const Machine& machine) {
  return topology::devices_on_host(machine.usable_cores(), plan.threads_per_device,
                                   plan.placement.stages_on_host(host));
}

/// The least of those hosts that compute anything, so that T is one for the whole job.
int least_usable_cores(const topology::Placement& placement, std::span<const Machine> machines) {
  int least = std::numeric_limits<int>::max();
  for (const auto& place : placement.instances) {
    least = std::min(least, machines[static_cast<std::size_t>(place.host)].usable_cores());
  }
  return least;
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

/// Fills in the cores of each instance, host by host.
void bind_all(JobPlan& plan, std::span<const Machine> machines, topology::BindPolicy policy) {
  for (std::size_t host = 0; host < plan.placement.hosts.size(); ++host) {
    const auto& machine = machines[host];
    const auto local = plan.placement.on_host(static_cast<int>(host));
    if (local.empty()) continue;
    std::vector<std::vector<int>> device_ids;
    for (const auto& place : local) {
      device_ids.push_back(
          plan.instances[static_cast<std::size_t>(place.instance)].identity.device_ids);
    }
    const auto cores = topology::bind(machine, device_ids,
                                      devices_of(plan, static_cast<int>(host), machine), policy);
    for (std::size_t i = 0; i < local.size(); ++i) {
      auto& instance = plan.instances[static_cast<std::size_t>(local[i].instance)];
      instance.cores = cores[i];
      instance.cpus = cpus_of(cores[i], machine);
    }
  }
}

topology::Identity identify(const JobPlan& plan, const topology::InstancePlace& place,
                            const Machine& machine) {
  const auto& placement = plan.placement;
  topology::Identity identity;
  identity.launched_by = topology::LaunchedBy::Lockstep;
  identity.instance = place.instance;
  identity.num_instances = placement.shape.instances;
  identity.local_instance = place.local_instance;
  identity.num_local_instances = static_cast<int>(placement.on_host(place.host).size());
  identity.num_replicas = placement.shape.replicas;
  identity.local_replicas = place.replicas;
  identity.devices_per_replica = placement.shape.devices_per_replica;
  identity.device_ids =
      topology::device_ids(placement, place.instance, devices_of(plan, place.host, machine));
  identity.threads_per_device = plan.threads_per_device;
  return identity;
}

}  // namespace

topology::Placement place_job(const RunOptions& options, std::vector<topology::Host> hosts) {
  check(options);
  return topology::place(std::move(hosts),
                         {.replicas = options.num_replicas.value_or(options.num_instances),
                          .instances = options.num_instances,
                          .devices_per_replica = options.devices_per_replica});
}

JobPlan plan_job(const RunOptions& options, std::vector<topology::Host> hosts,
                 std::span<const Machine> machines) {
  JobPlan plan;
  plan.placement = place_job(options, std::move(hosts));
  plan.threads_per_device = options.threads_per_device.value_or(
      topology::threads_per_device(least_usable_cores(plan.placement, machines), plan.placement));
  for (const auto& variable : options.environment) {
    plan.environment.push_back(parse_variable(variable));
  }
  for (const auto& place : plan.placement.instances) {
    const auto& machine = machines[static_cast<std::size_t>(place.host)];
    PlannedInstance instance;
    instance.identity = identify(plan, place, machine);
    instance.identity.stall_timeout = options.stall_timeout;
    instance.identity.transport = options.transport;
    if (!options.cache_path.empty()) {
      instance.identity.cache_path = std::filesystem::absolute(options.cache_path).string();
    }
    instance.host = plan.placement.hosts[static_cast<std::size_t>(place.host)].name;
    instance.stages_on_host = plan.placement.stages_on_host(place.host);
    instance.usable_cores = machine.usable_cores();
    plan.instances.push_back(std::move(instance));
  }
  bind_all(plan, machines, options.bind);
  return plan;
}

JobPlan plan_job(const RunOptions& options, std::vector<topology::Host> hosts,
                 const Machine& machine) {
  const std::vector<Machine> machines(hosts.size(), machine);
  return plan_job(options, std::move(hosts), machines);
}

}  // namespace lockstep::launch

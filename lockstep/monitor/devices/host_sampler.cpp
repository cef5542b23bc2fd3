#include "lockstep/monitor/devices/host_sampler.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/process_facts.h"
#include "lockstep/launch/discover/machine_discovery.h"
#include "lockstep/monitor/devices/other_hosts.h"

namespace lockstep::monitor {
namespace {

std::unique_ptr<Nvml> open_nvml() {
  try {
    return std::make_unique<Nvml>();
  } catch (const Error&) {
    return nullptr;  // as on most machines
  }
}

/// The stages of an instance, each with the number of its device.
std::vector<std::pair<int, StageOnDevice>> stages_of(const WatchedJob& job,
                                                     const InstanceFacts& facts) {
  std::vector<std::pair<int, StageOnDevice>> stages;
  for (std::size_t i = 0; i < facts.device_ids.size(); ++i) {
    const auto place = static_cast<int>(i);
    stages.push_back({facts.device_ids[i],
                      {.job = job.id,
                       .instance = facts.instance,
                       .replica = facts.replicas.first + place / facts.devices_per_replica,
                       .stage = place % facts.devices_per_replica,
                       .is_split = facts.devices_per_replica > 1}});
  }
  return stages;
}

/// Those of an instance's threads that one of its devices has: equal parts, in their order. Where
/// it is bound to fewer, or may run anywhere, its devices share what there is.
std::vector<int> cpus_of_device(const WatchedInstance& instance, int device, int all_cpus) {
  const auto& ids = instance.found.facts.device_ids;
  const std::set<int> distinct(ids.begin(), ids.end());
  const auto& cpus = instance.usage.cpus;
  const auto number = static_cast<int>(distinct.size());
  const auto count = static_cast<int>(cpus.size());
  if (count >= all_cpus || count < number) return cpus;
  const auto place = static_cast<int>(std::distance(distinct.begin(), distinct.find(device)));
  std::vector<int> own;
  for (const int index : topology::cores_of_device(place, number, count)) {
    own.push_back(cpus[static_cast<std::size_t>(index)]);
  }
  return own;
}

void add_missing(std::vector<int>& to, const std::vector<int>& numbers) {
  to.insert(to.end(), numbers.begin(), numbers.end());
  std::ranges::sort(to);
  to.erase(std::unique(to.begin(), to.end()), to.end());
}

std::vector<int> all_cpus_of(const topology::Machine& machine) {
  std::vector<int> cpus;
  for (const auto& core : machine.cores) add_missing(cpus, core.cpus);
  return cpus;
}

bool computes_on(const Device& gpu, int process) {
  return std::ranges::find(gpu.processes, process) != gpu.processes.end();
}

}  // namespace

std::vector<Device> cpu_devices_of(const std::vector<WatchedJob>& jobs,
                                   const topology::Machine& machine) {
  const auto all_cpus = static_cast<int>(all_cpus_of(machine).size());
  std::vector<Device> devices;
  for (const auto& job : jobs) {
    std::map<int, Device> of_job;
    for (const auto& instance : job.instances) {
      const auto& facts = instance.found.facts;
      if (!is_alive(instance) || facts.device_kind != DeviceKind::Cpu) continue;
      for (auto& [id, stage] : stages_of(job, facts)) {
        auto& device = of_job[id];
        device.id = id;
        add_missing(device.cpus, cpus_of_device(instance, id, all_cpus));
        device.stages.push_back(std::move(stage));
      }
    }
    for (auto& [id, device] : of_job) devices.push_back(std::move(device));
  }
  return devices;
}

void attach_to_gpus(std::vector<Device>& gpus, const std::vector<WatchedJob>& jobs) {
  for (const auto& job : jobs) {
    for (const auto& instance : job.instances) {
      const auto& facts = instance.found.facts;
      if (!is_alive(instance) || facts.device_kind != DeviceKind::Cuda) continue;
      std::vector<Device*> seen;
      for (auto& gpu : gpus) {
        if (computes_on(gpu, facts.process)) seen.push_back(&gpu);
      }
      for (auto& [id, stage] : stages_of(job, facts)) {
        // One that a process is seen on is its only one, whatever the program calls it.
        const auto number = id;
        const auto named = std::ranges::find_if(
            gpus, [&](const Device& gpu) { return gpu.id == std::optional<int>(number); });
        if (seen.size() == 1) {
          seen.front()->stages.push_back(std::move(stage));
        } else if (named != gpus.end()) {
          named->stages.push_back(std::move(stage));
        }
      }
    }
  }
}

HostSampler::HostSampler(topology::Environment environment)
    : jobs_(std::move(environment)), machine_(launch::discover_machine()), nvml_(open_nvml()) {}

std::vector<Device> HostSampler::devices(const std::vector<WatchedJob>& jobs) {
  const auto available = static_cast<std::int64_t>(std::min<std::uint64_t>(
      available_memory(), static_cast<std::uint64_t>(machine_.memory_bytes)));
  std::vector<Device> all{{.kind = DeviceKind::Cpu,
                           .model = machine_.cpu_model,
                           .cpus = all_cpus_of(machine_),
                           .memory_bytes = machine_.memory_bytes,
                           .used_memory_bytes = machine_.memory_bytes - available,
                           .temperature_celsius = cpu_.temperature_celsius(),
                           .power_watts = cpu_.power_watts()}};
  std::ranges::move(cpu_devices_of(jobs, machine_), std::back_inserter(all));
  for (auto& device : all) device.load = cpu_.load(device.cpus);
  if (nvml_) {
    auto gpus = nvml_->devices();
    attach_to_gpus(gpus, jobs);
    std::ranges::move(gpus, std::back_inserter(all));
  }
  return all;
}

HostSnapshot HostSampler::sample() {
  auto snapshot = sample_this_machine();
  add_other_hosts(snapshot);
  return snapshot;
}

HostSnapshot HostSampler::sample_this_machine() {
  auto snapshot = jobs_.sample_this_machine();
  cpu_.sample(snapshot.unix_time);
  snapshot.devices = devices(snapshot.jobs);
  for (auto& device : snapshot.devices) device.host = snapshot.host;
  return snapshot;
}

}  // namespace lockstep::monitor

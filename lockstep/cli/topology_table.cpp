#include "lockstep/cli/topology_table.h"

#include <fmt/format.h>

#include <numeric>
#include <set>

#include "lockstep/base/strings.h"
#include "lockstep/ui/table.h"

namespace lockstep::cli {
namespace {

std::string count(std::size_t number, const std::string& noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

std::string unique_ranges(const std::vector<int>& numbers) {
  const std::set<int> sorted(numbers.begin(), numbers.end());
  return to_ranges(std::vector<int>(sorted.begin(), sorted.end()));
}

std::string to_ranges(const topology::ReplicaRange& range) {
  std::vector<int> numbers(static_cast<std::size_t>(range.count));
  std::iota(numbers.begin(), numbers.end(), range.first);
  return lockstep::to_ranges(numbers);
}

}  // namespace

std::string topology_table(const launch::JobPlan& plan) {
  const auto& placement = plan.placement;
  ui::Table table({"host", "instance", "replicas", "devices", "cores"});
  for (std::size_t host = 0; host < placement.hosts.size(); ++host) {
    const auto& name = placement.hosts[host].name;
    const auto local = placement.on_host(static_cast<int>(host));
    if (local.empty()) table.add({name, "-", "-", "-", "-"});
    for (const auto& place : local) {
      const auto& instance = plan.instances[static_cast<std::size_t>(place.instance)];
      table.add({name, std::to_string(place.instance), to_ranges(place.replicas),
                 unique_ranges(instance.identity.device_ids),
                 instance.cores.empty() ? "any" : lockstep::to_ranges(instance.cores)});
    }
  }
  const auto& shape = placement.shape;
  const auto size = [](int number) { return static_cast<std::size_t>(number); };
  return fmt::format(
      "{} in {} on {}; {} per replica, {} per device\n\n{}", count(size(shape.replicas), "replica"),
      count(size(shape.instances), "instance"), count(placement.hosts.size(), "host"),
      count(size(shape.devices_per_replica), "device"),
      count(size(plan.threads_per_device), "thread"), table.to_string());
}

}  // namespace lockstep::cli

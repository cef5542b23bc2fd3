#include "lockstep/comm/hosts/host_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::comm::hosts {

HostMap HostMap::of_neighbours(const std::vector<Part>& parts) {
  HostMap map;
  int next = 0;
  for (const auto& part : parts) {
    auto& added = map.hosts.emplace_back(Host{part.name, {}});
    for (int i = 0; i < part.num_instances; ++i) added.instances.push_back(next++);
  }
  return map;
}

int HostMap::host_of(int instance) const {
  const auto found = std::ranges::find_if(hosts, [&](const Host& host) {
    return std::ranges::binary_search(host.instances, instance);
  });
  if (found == hosts.end()) {
    throw Error(ErrorKind::Bug, fmt::format("HostMap: instance {} is on no host", instance));
  }
  return static_cast<int>(found - hosts.begin());
}

int HostMap::num_instances() const {
  int count = 0;
  for (const auto& host : hosts) count += static_cast<int>(host.instances.size());
  return count;
}

}  // namespace lockstep::comm::hosts

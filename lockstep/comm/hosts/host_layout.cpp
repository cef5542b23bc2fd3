#include "lockstep/comm/hosts/host_layout.h"

#include <algorithm>

namespace lockstep::comm::hosts {

HostLayout::HostLayout(const HostMap& map, std::vector<int> instances_, int instance)
    : instances(std::move(instances_)) {
  for (std::size_t i = 0; i < instances.size(); ++i) {
    const int job_host = map.host_of(instances[i]);
    const auto found = std::ranges::find(job_hosts, job_host);
    const auto place = static_cast<std::size_t>(found - job_hosts.begin());
    if (found == job_hosts.end()) {
      job_hosts.push_back(job_host);
      leaders.push_back(instances[i]);
      ranks.emplace_back();
    }
    if (instances[i] == instance) {
      rank = static_cast<int>(i);
      host = static_cast<int>(place);
    }
    hosts.push_back(static_cast<int>(place));
    ranks[place].push_back(static_cast<int>(i));
    most_local = std::max(most_local, ranks[place].size());
  }
  first_blocks.push_back(0);
  for (const auto& local : ranks) first_blocks.push_back(first_blocks.back() + local.size());
}

std::vector<int> HostLayout::local_instances() const {
  std::vector<int> found;
  for (const int local : local_ranks()) found.push_back(instances[static_cast<std::size_t>(local)]);
  return found;
}

int HostLayout::local_rank(int of_rank) const {
  const auto& all = ranks[static_cast<std::size_t>(hosts[static_cast<std::size_t>(of_rank)])];
  return static_cast<int>(std::ranges::find(all, of_rank) - all.begin());
}

}  // namespace lockstep::comm::hosts

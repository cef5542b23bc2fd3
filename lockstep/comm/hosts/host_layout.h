#pragma once

#include <cstddef>
#include <vector>

#include "lockstep/comm/hosts/host_map.h"

namespace lockstep::comm::hosts {

/// How the instances of a group lie on hosts, as one of them sees it. Hosts are numbered from 0 in
/// order of the first instance on each, which is the host's leader within the group.
struct HostLayout {
  /// `instances` are ascending, and `instance` is one of them.
  HostLayout(const HostMap& map, std::vector<int> instances, int instance);

  std::vector<int> instances;             ///< the job's numbers, by rank
  int rank = 0;                           ///< of this one
  std::vector<int> hosts;                 ///< by rank
  std::vector<std::vector<int>> ranks;    ///< by host
  std::vector<int> leaders;               ///< by host: the job's numbers
  std::vector<int> job_hosts;             ///< by host: its number in the job
  int host = 0;                           ///< of this one
  std::size_t most_local = 1;             ///< instances of any host
  std::vector<std::size_t> first_blocks;  ///< by host, and behind the last: how many are before it

  int num_hosts() const noexcept { return static_cast<int>(ranks.size()); }
  std::size_t size() const noexcept { return instances.size(); }
  const std::vector<int>& local_ranks() const noexcept {
    return ranks[static_cast<std::size_t>(host)];
  }
  std::size_t local_size() const noexcept { return local_ranks().size(); }
  /// The instances that are on this one's host.
  std::vector<int> local_instances() const;
  /// The place of a rank among those of its host.
  int local_rank(int of_rank) const;
};

}  // namespace lockstep::comm::hosts

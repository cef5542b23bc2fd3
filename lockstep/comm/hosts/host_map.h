#pragma once

#include <string>
#include <vector>

namespace lockstep::comm::hosts {

/// Which instances of a job are on which of its hosts.
struct HostMap {
  struct Host {
    std::string name;
    std::vector<int> instances;  ///< the job's numbers, ascending; the first is the host's leader
  };
  std::vector<Host> hosts;  ///< ascending by leader

  /// Hosts with so many instances each, which are neighbours.
  struct Part {
    std::string name;
    int num_instances = 1;
  };
  static HostMap of_neighbours(const std::vector<Part>& parts);

  /// The host that an instance is on.
  int host_of(int instance) const;
  int num_instances() const;
};

}  // namespace lockstep::comm::hosts

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/comm/hosts/fabric.h"
#include "lockstep/comm/hosts/host_map.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm::mpi {

/// Whether this build has the MPI transport.
bool is_built() noexcept;

/// The library that it was built with, as that calls itself: "Open MPI v4.1.4"; empty without.
std::string_view library_version() noexcept;

/// What an instance knows of its job before it has joined it.
struct Place {
  int instance = 0;
  int num_instances = 1;
  std::vector<int> local_instances;  ///< of its host, ascending; the first is the leader
  std::string host_name;

  bool is_leader() const { return local_instances.front() == instance; }
};

/// What an instance gets from the MPI job that it is part of.
struct Joined {
  /// Makes a fabric between any instances that are ranks, ascending, one of each of several hosts.
  using Connect =
      std::function<std::unique_ptr<hosts::Fabric>(std::span<const int> instances, std::uint64_t id,
                                                   const hosts::Fabric::LookAround& look_around)>;

  hosts::HostMap map;
  std::unique_ptr<hosts::Fabric> fabric;  ///< null where this instance leads no host
  Connect connect;
  /// MPI is used as long as this or a fabric lives, and ends with the process: a process that ends
  /// well waits for all others to end (MPI_Finalize); one that fails does not.
  std::shared_ptr<void> session;
};

/// Starts MPI in this process and learns who is on which host. Every process of the MPI job calls
/// it at the same time, once in its life: one per instance, or the leader of each host alone.
///
/// libmpi is loaded here and nowhere else, so that nobody else pays for it.
///
/// Errors: `Unavailable` where there is no MPI; `Options` where the MPI job does not hold all
/// instances; `Timeout` where one does not come.
Joined join(const Place& place, const WaitOptions& options);

}  // namespace lockstep::comm::mpi

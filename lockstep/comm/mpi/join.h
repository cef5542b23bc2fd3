#pragma once

#include <memory>
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

/// What an instance gets from the MPI job that it is part of.
struct Joined {
  hosts::HostMap map;
  std::unique_ptr<hosts::Fabric> fabric;  ///< null where this instance leads no host
  /// MPI is used as long as this or a fabric lives, and ends with the process: a process that ends
  /// well waits for all others to end (MPI_Finalize); one that fails does not.
  std::shared_ptr<void> session;
};

/// Starts MPI in this process and learns who is on which host. Every process of the MPI job calls
/// it at the same time, once in its life: one per instance, or the leader of each host alone.
///
/// `local_instances` are those of this host, ascending, the first its leader; `instance` is this
/// one. libmpi is loaded here and nowhere else, so that nobody else pays for it.
///
/// Errors: `Unavailable` where there is no MPI; `Options` where the MPI job does not hold all
/// instances; `Timeout` where one does not come.
Joined join(const std::vector<int>& local_instances, int instance, const std::string& host_name,
            const WaitOptions& options);

}  // namespace lockstep::comm::mpi

#pragma once

#include <string>
#include <vector>

#include "lockstep/base/file.h"
#include "lockstep/comm/host/member.h"
#include "lockstep/comm/tcp/secret.h"
#include "lockstep/topology/identity.h"

namespace lockstep::comm::slurm {

/// A step of Slurm that no launcher of ours has started, as one of its tasks sees it.
struct StepPlace {
  std::string session;                   ///< what sets the step apart from all others
  std::vector<topology::JobHost> hosts;  ///< by name; addresses and ports are yet to be found
  int host = 0;
};

/// What all tasks know then.
struct Met {
  tcp::Secret secret;
  std::vector<topology::JobHost> hosts;  ///< with addresses and ports
  UniqueFd listener;                     ///< the leader's, at this host's
};

/// Brings the tasks of all nodes together; those of one have met in `member`'s memory. The first
/// leader makes the job's secret, and gives it to the others with everybody's address, all of it
/// under credentials of munge; each of them tells those of its node. It listens on one of a
/// few ports that follow from the session, at the address that the other nodes reach it by, for as
/// long as this takes.
///
/// Errors: `Timeout`, naming nodes that have not come; `Unavailable` without munge, or where a
/// node's name is not known.
Met meet(const StepPlace& place, const std::shared_ptr<host::Member>& member);

}  // namespace lockstep::comm::slurm

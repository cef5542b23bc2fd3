#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/host/member.h"
#include "lockstep/comm/hosts/host_map.h"
#include "lockstep/comm/tcp/secret.h"
#include "lockstep/comm/transport.h"
#include "lockstep/topology/identity.h"

namespace lockstep::comm::tcp {

/// What an instance knows of its job on several hosts.
struct JobPlace {
  Secret secret;
  std::string session;  ///< what sets this start of the job apart
  std::vector<topology::JobHost> hosts;
  hosts::HostMap map;  ///< which instances are on which of them
  int host = 0;        ///< that this instance is on
  /// A socket that listens at the host's address and port; the leader needs it.
  std::optional<int> listener;
};

/// Joins the instances of several hosts, which share memory on each of them: the transport `tcp`.
/// `member` has met the others of its host. Returns when all have come.
/// Errors: `Timeout`, naming the hosts that have not come; `Options` where the place cannot be
/// meant; those of a collective.
std::unique_ptr<Transport> join(const JobPlace& place, std::shared_ptr<host::Member> member);

}  // namespace lockstep::comm::tcp

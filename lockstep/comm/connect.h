#pragma once

#include <memory>

#include "lockstep/comm/communicator.h"
#include "lockstep/topology/identity.h"

namespace lockstep::comm {

/// The communicator of all instances of the job that this process is one of; returns when all have
/// come. Instances of one host share memory; the leaders of several hosts talk over TCP or MPI; a
/// process that is alone talks to itself.
/// Errors: `Unavailable` where nothing says where other hosts are, `Options` where nothing says
/// where instances meet or the transport does not fit; `Timeout` and `PeerLost` as for a
/// collective.
std::unique_ptr<Communicator> connect(const topology::Identity& identity);

}  // namespace lockstep::comm

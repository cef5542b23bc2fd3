#pragma once

#include <memory>

#include "lockstep/comm/shm/meeting.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm::shm {

/// Joins the processes of one host that are the instances of a job: the transport `shm`. Returns
/// when all have come.
/// Errors: those of `meet`, and of a collective.
std::unique_ptr<Transport> join(const MeetingPlace& place, const WaitOptions& options);

}  // namespace lockstep::comm::shm

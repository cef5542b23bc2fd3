#pragma once

#include "lockstep/launch/engine/engine.h"
#include "lockstep/launch/place/job_plan.h"
#include "lockstep/topology/identity.h"

namespace lockstep::launch {

/// What carries collectives of a job over several hosts: MPI where mpirun starts it, this build has
/// it and no restart is wanted, for MPI ends every rank when one dies; else TCP.
/// Throws `Options` where what was asked for cannot be.
topology::TransportKind choose_transport(const RunOptions& options, EngineKind engine);

/// Throws `Options` where a job with agents is asked for what only one without them has.
void check_fits_hosts(const RunOptions& options);

}  // namespace lockstep::launch

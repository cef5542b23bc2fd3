#pragma once

#include <vector>

#include "lockstep/comm/mpi/join.h"

namespace lockstep::comm::mpi {

/// What all ranks of the MPI job say of themselves, by rank. All ranks call it.
std::vector<Place> gather_places(const Place& own);

}  // namespace lockstep::comm::mpi

#pragma once

#include <vector>

#include "lockstep/comm/mpi/rank_facts.h"

namespace lockstep::comm::mpi {

/// What all ranks of the MPI job say of themselves, by rank. All ranks call it.
std::vector<RankFacts> gather_facts(const RankFacts& own);

}  // namespace lockstep::comm::mpi

#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/topology/environment.h"

namespace lockstep::bench {

/// A system that `lockstep bench comm` measures, and the commands that start its processes.
struct System {
  std::string name;                   ///< "lockstep", "gloo", "mpi"
  std::vector<std::string> launcher;  ///< to be followed by the number of instances and the worker
  std::vector<std::string> worker;    ///< to be followed by the job's folder
};

/// The systems to measure, lockstep first, and the names of the peers that are missing.
struct Systems {
  std::vector<System> present;
  std::vector<std::string> missing;
};

/// Finds the peers that `against` names. If it is unset, finds all peers that are built.
/// Throws `Options` for an unknown name, `Unavailable` for a peer that is named and missing.
Systems find_systems(const std::optional<std::vector<std::string>>& against,
                     const topology::Environment& environment);

}  // namespace lockstep::bench

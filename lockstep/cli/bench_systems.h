#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lockstep/topology/environment.h"

namespace lockstep::cli {

/// One of the systems that `lockstep bench comm` measures, and how its processes are started.
struct BenchSystem {
  std::string name;                   ///< "lockstep", "gloo", "mpi"
  std::vector<std::string> launcher;  ///< to be followed by the number of instances and the worker
  std::vector<std::string> worker;    ///< to be followed by the job's folder
};

/// Those that are to be measured, lockstep first, and the names of those that this build has not.
struct BenchSystems {
  std::vector<BenchSystem> present;
  std::vector<std::string> missing;
};

/// Finds the peers that `against` names, or all that there are where it is unset.
/// Throws `Options` for a name that is none, `Unavailable` for a peer that is asked for and
/// missing.
BenchSystems find_systems(const std::optional<std::vector<std::string>>& against,
                          const topology::Environment& environment);

/// This program's own file.
std::string own_program();

/// A program of ours that uses a peer. It is beside `bin`, in the build as where it is installed.
std::string libexec_program(const char* name);

/// `mpirun …`, to be followed by the number of processes and a program.
std::vector<std::string> mpirun_launcher();

}  // namespace lockstep::cli

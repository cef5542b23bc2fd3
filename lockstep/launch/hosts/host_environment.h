#pragma once

#include <string_view>

#include "lockstep/topology/environment.h"

namespace lockstep::launch {

/// Whether a variable tells of the host, or of who started a process on it, so that its value on
/// one host means nothing on another.
bool belongs_to_host(std::string_view name);

/// What instances on another host inherit: the launcher's variables, but those that belong to a
/// host as the agent there has them.
topology::Environment host_environment(const topology::Environment& launcher,
                                       const topology::Environment& agent);

/// Whether a variable tells a process its place in an MPI job. Only one process can take it.
bool belongs_to_mpi(std::string_view name);

}  // namespace lockstep::launch

#pragma once

#include <optional>
#include <string>

#include "lockstep/base/export.h"
#include "lockstep/topology/machine.h"

namespace lockstep::launch {

/// The cores of this host that this process may use: what the container, the scheduler and
/// `taskset` leave of them. Takes some milliseconds.
LOCKSTEP_PRIVATE_API topology::Machine discover_machine();

/// The CPU limit of a control group and those above it, in cores; nothing where there is none.
///
/// `mount` is where the version 2 hierarchy is mounted, `group` the path within it.
std::optional<double> read_cpu_quota(const std::string& mount, const std::string& group);

}  // namespace lockstep::launch

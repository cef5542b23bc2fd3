#pragma once

#include <chrono>

#include "lockstep/monitor/devices/host_sampler.h"

namespace lockstep::monitor {

/// A host that nothing was heard of for so long is silent; its agent reports every second.
inline constexpr std::chrono::seconds kSilentAfter{5};

/// Adds what agents have told launchers of this machine about the other hosts of their jobs:
/// instances, and the devices there, for jobs of this user. What this machine sees by itself stays
/// as it sees it; a report that cannot be read is left out.
void add_other_hosts(HostSnapshot& snapshot);

}  // namespace lockstep::monitor

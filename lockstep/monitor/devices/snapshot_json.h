#pragma once

#include <string>

#include "lockstep/monitor/devices/host_sampler.h"

namespace lockstep::monitor {

/// A snapshot for programs: one object, described in docs/architecture.md. Numbers that are not
/// known are null.
std::string to_json(const HostSnapshot& snapshot);

}  // namespace lockstep::monitor

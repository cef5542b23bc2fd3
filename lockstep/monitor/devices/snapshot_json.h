#pragma once

#include <optional>
#include <string>

#include "lockstep/monitor/devices/host_sampler.h"

namespace lockstep::monitor {

/// A snapshot for programs: one object, described in docs/internals/architecture.md. Numbers that
/// are not known are null.
std::string to_json(const HostSnapshot& snapshot);

/// What `to_json` has written, on whatever machine; nothing for other texts. `steady_ns` is a clock
/// of its own, which only `updated_ns` of the same snapshot can be compared with.
std::optional<HostSnapshot> parse_snapshot(const std::string& text);

}  // namespace lockstep::monitor

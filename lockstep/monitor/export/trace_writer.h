#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "lockstep/monitor/export/span_file.h"

namespace lockstep::monitor {

/// How clocks of hosts differ.
struct TraceClocks {
  /// Nanoseconds to add to the monotonic clock of a host to get that of the first instance's host.
  /// Where a host has none, its wall clock and that of the first decide, which are as near to each
  /// other as the machines' time service keeps them.
  std::map<std::string, std::int64_t> offsets{};
};

/// Writes what instances did as one file in the trace-event format, which Perfetto
/// (ui.perfetto.dev) and Chrome (chrome://tracing) show: a process for each instance, a row for
/// each of its threads, all on the clock of the first instance's host.
///
/// Instances of one machine share a clock. What differs by a clock of another host is told under
/// `otherData.clocks`. Events are sorted by time; the file is there as a whole or not at all.
///
/// Errors: `Io`; `Options` where there is no instance, or an offset for a host that has none.
void write_trace(const std::string& path, std::span<const InstanceSpans> instances,
                 const TraceClocks& clocks = {});

}  // namespace lockstep::monitor

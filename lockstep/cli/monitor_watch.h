#pragma once

#include <chrono>
#include <string>

#include "lockstep/cli/monitor_tables.h"
#include "lockstep/monitor/devices/host_sampler.h"

namespace lockstep::cli {

struct WatchOptions {
  std::chrono::milliseconds interval{1000};
  ProcessOrder order = ProcessOrder::Job;
  std::string job{};  ///< the beginning of its name; empty: all jobs
};

/// Draws the tables again and again on the terminal, until a key or a signal ends it. Returns the
/// exit code: 0 for a key, 128 + n for signal n. The terminal is as it was before, however it ends.
///
/// Throws `Options` where there is no terminal.
int watch(monitor::HostSampler& sampler, const WatchOptions& options);

/// Leaves the jobs whose names begin so, and what computes for them.
void keep_job(monitor::HostSnapshot& snapshot, const std::string& job);

}  // namespace lockstep::cli

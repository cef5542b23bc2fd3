#pragma once

#include <optional>
#include <vector>

#include "lockstep/events/job_events.h"
#include "lockstep/launch/supervise/instance_process.h"

namespace lockstep::launch {

/// Asks the kernel which instances have been stopped or continued since, and notes since when.
/// Warns of those that stand still because they use the terminal.
void note_stops(std::vector<InstanceProcess>& instances, events::JobSink& sink);

/// When the next of the stopped ones has been so for `limit`; nothing where none is.
std::optional<InstanceProcess::Clock::time_point> next_overdue_stop(
    const std::vector<InstanceProcess>& instances, events::Seconds limit);

/// Kills those that have been stopped for `limit`, and tells the sink.
void give_up_stopped(std::vector<InstanceProcess>& instances, events::Seconds limit,
                     const std::optional<std::int64_t>& step, events::JobSink& sink);

}  // namespace lockstep::launch

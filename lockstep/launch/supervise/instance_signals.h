#pragma once

#include <sys/types.h>

#include <set>
#include <vector>

#include "lockstep/launch/supervise/instance_process.h"

namespace lockstep::launch {

bool any_running(const std::vector<InstanceProcess>& instances);

/// Signals those that run, with the helpers that they have started, as a terminal's signals would.
void signal_groups(const std::vector<InstanceProcess>& instances, int signal);

/// The same without their helpers: SIGUSR1 and SIGUSR2 mean what the program makes of them, and
/// would end those.
void signal_instances(const std::vector<InstanceProcess>& instances, int signal);

/// Sends SIGTERM to what instances that are gone have left behind below this process, and adds it
/// to `told`; what is there already has had its own.
void end_orphans(const std::vector<InstanceProcess>& instances, std::set<pid_t>& told);

}  // namespace lockstep::launch

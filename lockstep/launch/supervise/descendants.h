#pragma once

#include <sys/types.h>

#include <chrono>
#include <set>
#include <string>
#include <vector>

#include "lockstep/events/job_events.h"

namespace lockstep::launch {

/// A process as the kernel lists it. Number and start time together name it for ever.
struct ProcessEntry {
  pid_t pid = 0;
  pid_t parent = 0;
  char state = '?';  ///< 'Z' for one that is dead and waits to be reaped
  unsigned long long start_time = 0;
  std::string name;
};

/// All living processes below `root`: children, their children, and so on.
///
/// Since the launcher is a subreaper, nothing that an instance has started can leave this tree, not
/// by a new session, a new process group or the death of the process between.
///
/// Processes in `without`, and all below them, are left out.
std::vector<ProcessEntry> descendants_of(pid_t root, const std::set<pid_t>& without = {});

/// What `waitpid` tells of a process's end.
events::ExitStatus to_exit_status(int wait_status);

/// A process that forks while it is being killed leaves a child to kill in the next round.
inline constexpr std::chrono::milliseconds kKillInterval{20};
/// What SIGKILL has not ended by then hangs in the kernel.
inline constexpr std::chrono::milliseconds kUnkillable{10'000};

/// Kills all processes below this one, and returns those that it found alive.
std::vector<ProcessEntry> kill_descendants();

/// Sends a signal to each, never to a stranger that has got a dead one's number since.
void signal_all(const std::vector<ProcessEntry>& processes, int signal);

}  // namespace lockstep::launch

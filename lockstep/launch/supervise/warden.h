#pragma once

#include <functional>

#include "lockstep/events/job_events.h"
#include "lockstep/launch/supervise/signals.h"

namespace lockstep::launch {

/// Runs a job in a child process and watches over that child, so that no process of the job
/// outlives the launcher, whichever of the two is killed.
///
/// The calling process, the one the user knows, becomes the warden: it hands signals on and does
/// nothing else. Its child, the supervisor, runs `supervise` with a pidfd of the warden. Both are
/// subreapers. If the supervisor dies, its processes become the warden's children and are killed;
/// if the warden dies, the supervisor sees it through the pidfd and ends everything.
///
/// A supervisor that has been told to end the job and has not done so well after `grace` is killed,
/// and the warden ends the job itself.
///
/// The supervisor is in a process group of its own, so that a terminal's Ctrl-C arrives once.
/// Returns how the supervisor ended: with the exit code that `supervise` gave, or killed itself.
/// Throws `Io`.
events::ExitStatus run_under_warden(Signals& signals, events::Seconds grace,
                                    const std::function<int(int warden)>& supervise);

}  // namespace lockstep::launch

#pragma once

#include <string>

namespace lockstep::comm::host {

struct ThreadId {
  int process = 0;
  int thread = 0;
};

/// Where a thread of this or another process stands, innermost function first, one to a line.
///
/// Asks elfutils' eu-stack, in a process of its own: it may be slow or fail on what it is given.
/// Empty where it is not installed, may not look, or takes more than two seconds.
std::string stack_trace(ThreadId thread);

/// The lines of one thread in what eu-stack prints, without addresses; at most `limit` of them.
std::string frames_of(int thread, const std::string& listing, int limit);

}  // namespace lockstep::comm::host

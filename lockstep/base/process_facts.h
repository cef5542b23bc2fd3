#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lockstep/base/export.h"

namespace lockstep {

/// What the system counts of a process. A number is used again when its process is gone; together
/// with the start it stands for one process alone, until the machine is started anew.
struct ProcessCounters {
  char state = '?';               ///< 'R', 'S', 'T' where it is stopped, …
  std::uint64_t start_ticks = 0;  ///< since the machine was started
  std::uint64_t cpu_ticks = 0;    ///< of all its threads, in the kernel too

  /// Whether it is stopped by a signal or a debugger.
  bool is_stopped() const noexcept { return state == 'T' || state == 't'; }
};

/// Nothing where no such process runs; one that has ended and is not reaped yet does not run.
std::optional<ProcessCounters> process_counters(int process);

/// How many ticks are a second.
double ticks_per_second();

/// What a user is called; the number where nobody knows a name.
std::string user_name(unsigned user);

/// Seconds since this process was started, loading of its libraries included; to a hundredth.
LOCKSTEP_PRIVATE_API double process_age();

/// Bytes of memory that this process has for itself, and shares with no other.
LOCKSTEP_PRIVATE_API std::int64_t private_memory();
/// The same of another process; nothing where it is gone or does not tell.
std::optional<std::int64_t> private_memory_of(int process);

/// Bytes that this machine, or the container that we are in, can still give. The largest number
/// there is where neither says.
LOCKSTEP_PRIVATE_API std::uint64_t available_memory();

}  // namespace lockstep

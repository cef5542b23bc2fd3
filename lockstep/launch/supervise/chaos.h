#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "lockstep/events/job_events.h"

namespace lockstep::launch {

enum class FaultKind {
  Kill,  ///< SIGKILL
  Stop,  ///< SIGSTOP, for ever
  Slow,  ///< SIGSTOP, and SIGCONT a moment later
};

/// "kill", "stop" or "slow".
std::string_view name_of(FaultKind kind) noexcept;

/// What faults a job is to suffer.
struct ChaosOptions {
  std::uint64_t seed = 0;
  events::Seconds mtbf{10};  ///< mean time between failures
  std::vector<FaultKind> kinds{FaultKind::Kill, FaultKind::Stop, FaultKind::Slow};

  bool has(FaultKind kind) const noexcept;
  bool operator==(const ChaosOptions&) const = default;
};

/// Reads `SEED[,mtbf=SECONDS][,kinds=kill,stop,slow]`. Errors: `Options`.
ChaosOptions parse_chaos(std::string_view text);

/// One fault, with everything decided but the number of instances that are there to be chosen from.
struct Fault {
  events::Seconds gap{0};  ///< since the fault before it, or since the job began
  FaultKind kind = FaultKind::Kill;
  std::uint32_t choice = 0;     ///< of an instance
  events::Seconds duration{0};  ///< of one that slows; else 0

  /// The chosen one of `count` instances, each as likely as the others.
  int choose(int count) const noexcept;
};

/// The faults that belong to a seed: always the same, in the same order, whatever becomes of the
/// job. Gaps are distributed exponentially, kinds and instances evenly.
Fault fault_of(const ChaosOptions& options, std::uint32_t index);

}  // namespace lockstep::launch

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/export.h"

namespace lockstep {

enum class ScheduleKind : std::uint8_t { Constant, Step, Cosine, Linear };

/// "constant", "step", "cosine", "linear". Throws `Options`, with the choices, for other words.
LOCKSTEP_API ScheduleKind parse_schedule(std::string_view name);
LOCKSTEP_API std::string_view name_of(ScheduleKind kind) noexcept;
LOCKSTEP_API std::vector<std::string> schedule_names();

/// How the learning rate changes over a run, as a factor of the optimizer's own.
struct Schedule {
  ScheduleKind kind = ScheduleKind::Constant;
  double warmup_epochs = 0;  ///< from near zero up to 1, a step at a time; the rest comes after it
  double step_epochs = 30;   ///< Step: how often it falls
  double step_factor = 0.1;  ///< Step: to how much of itself
  double final_factor = 0;   ///< Cosine, Linear: where it ends
};

/// How long a run is.
struct RunLength {
  std::int64_t steps_per_epoch = 1;
  std::int64_t epochs = 1;
};

/// Throws `Options` for numbers that cannot be meant, as a warm-up longer than the run.
LOCKSTEP_API void check(const Schedule& schedule, const RunLength& length);

/// The factor for an optimizer step, counted from 0 over the whole run. Beyond the end of the run
/// it stays what it was last.
LOCKSTEP_API double factor(const Schedule& schedule, const RunLength& length, std::int64_t step);

}  // namespace lockstep

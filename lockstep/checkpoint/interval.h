#pragma once

#include <cstdint>
#include <string_view>

#include "lockstep/base/export.h"

namespace lockstep::checkpoint {

/// How often a checkpoint is taken.
struct Interval {
  enum class Unit : std::uint8_t { Never, Steps, Epochs, Seconds };
  Unit unit = Unit::Never;
  double count = 0;  ///< whole for steps and epochs
  bool operator==(const Interval&) const = default;
};

/// "500" or "500 steps", "2 epochs" or "1epoch", "30s", "10min", "1.5h": with or without a space.
/// "0" or "never".
/// Errors: `Options`, which `where` begins, with what would be understood.
LOCKSTEP_PRIVATE_API Interval parse_interval(std::string_view where, std::string_view text);

}  // namespace lockstep::checkpoint

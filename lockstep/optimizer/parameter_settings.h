#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/optimizer/optimizer.h"

namespace lockstep::optimizer {

/// What has to be known of a parameter to find its group.
struct ParameterFacts {
  std::vector<std::string> names;  ///< all that it has
  std::int64_t dimensions = 0;
};

/// How one parameter is treated: its group's numbers, or the optimizer's.
struct ParameterSettings {
  double lr = 0;
  double weight_decay = 0;
  bool frozen = false;

  bool operator==(const ParameterSettings&) const = default;
};

/// The settings of each parameter, in the order given.
///
/// Errors: `Options` for a group that fits no parameter, with the closest name.
LOCKSTEP_PRIVATE_API std::vector<ParameterSettings> settings_of(
    const Optimizer& optimizer, std::span<const ParameterFacts> parameters);

}  // namespace lockstep::optimizer

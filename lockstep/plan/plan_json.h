#pragma once

#include <string>
#include <string_view>

#include "lockstep/base/export.h"
#include "lockstep/plan/plan.h"

namespace lockstep::plan {

/// As `lockstep plan --json` writes it: every number under the name that it has in `Plan`.
LOCKSTEP_PRIVATE_API std::string to_json(const Plan& plan);

/// Reads it back. Errors: `Data` for what is no plan.
LOCKSTEP_PRIVATE_API Plan plan_from_json(std::string_view text);

}  // namespace lockstep::plan

#pragma once

#include <string>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/plan/model_profile.h"

namespace lockstep::plan {

/// The first blocks of the stages, ascending from 0.
using StageSplit = std::vector<int>;

/// The split whose slowest stage is fastest, forward and backward together; of several such, the
/// one whose earliest stages are shortest. What was not timed counts by what it keeps in memory.
///
/// Errors: `Options` where there are too few blocks that a stage may begin with.
LOCKSTEP_PRIVATE_API StageSplit split_evenly(const ModelProfile& profile, int stages);

/// Stages begin with these blocks, and with the first one.
///
/// Errors: `Options`, with the names that there are, for one that is no block, for one that is
/// named twice or out of order, for the first block, and where a stage would separate what shares
/// a tensor.
LOCKSTEP_PRIVATE_API StageSplit split_at(const ModelProfile& profile,
                                         const std::vector<std::string>& names);

/// How long the slowest stage takes for a micro-batch, forward and backward.
double slowest_stage(const ModelProfile& profile, const StageSplit& split);

}  // namespace lockstep::plan

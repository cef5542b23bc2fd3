#pragma once

#include <vector>

#include "lockstep/plan/step_flow.h"

namespace lockstep::plan {

/// How long a stage takes for one micro-batch.
struct StageTimes {
  double forward_s = 1;
  double backward_s = 2;
};

/// What a step comes to where every stage takes just as long as was measured, and nothing else
/// takes any time.
struct Forecast {
  double seconds = 0;
  double idle_share = 0;  ///< of the devices' time, until the last of them is done
};

/// Plays one step through.
Forecast forecast(const FlowShape& shape, const std::vector<StageTimes>& stages);

}  // namespace lockstep::plan

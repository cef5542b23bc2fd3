#pragma once

#include <string>

#include "lockstep/launch/place/job_plan.h"

namespace lockstep::cli {

/// What `--print-topology` shows: hosts, instances, replicas, devices and cores.
std::string topology_table(const launch::JobPlan& plan);

}  // namespace lockstep::cli

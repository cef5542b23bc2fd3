#pragma once

#include "lockstep/cli/run_arguments.h"
#include "lockstep/topology/environment.h"

namespace lockstep::cli {

/// Plans a job, starts it and watches over it to its end: what `lockstep run` does with its
/// arguments. Returns the exit code of the job; throws what was wrong before anything started.
int run_job(const RunArguments& arguments, const topology::Environment& environment);

}  // namespace lockstep::cli

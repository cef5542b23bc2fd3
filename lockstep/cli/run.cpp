#include "lockstep/cli/command.h"
#include "lockstep/cli/run_arguments.h"
#include "lockstep/cli/run_job.h"

namespace lockstep::cli {

int run(const Invocation& invocation) {
  const auto arguments = parse_run_arguments(invocation.arguments);
  return arguments ? run_job(*arguments, invocation.environment) : 0;
}

}  // namespace lockstep::cli

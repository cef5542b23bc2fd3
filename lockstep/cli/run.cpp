#include "lockstep/cli/command.h"
#include "lockstep/cli/command_line.h"
#include "lockstep/cli/run_arguments.h"
#include "lockstep/cli/run_job.h"

namespace lockstep::cli {

int run(const Invocation& invocation) {
  const auto arguments = parse_run_arguments(invocation.arguments);
  if (!arguments) return 0;
  auto environment = invocation.environment;
  const auto own = invocation.arguments.size() - arguments->run.command.size();
  set_command_variable(command_text("run", without_values_of_env(invocation.arguments, own)),
                       environment);
  return run_job(*arguments, environment);
}

}  // namespace lockstep::cli

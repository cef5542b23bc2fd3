#include "lockstep/cli/command.h"
#include "lockstep/cli/command_line.h"
#include "lockstep/cli/hand_on.h"
#include "lockstep/cli/installed_programs.h"
#include "lockstep/cli/run_job.h"
#include "lockstep/cli/train_start.h"
#include "lockstep/launch/discover/machine_discovery.h"

namespace lockstep::cli {
namespace {

constexpr const char* kTrainer = "lockstep-train";

/// Starts lockstep-train: in place of this process, or with a launcher in several.
int start_trainer(const Invocation& invocation, TrainCommand command) {
  const auto identity = topology::read_identity(invocation.environment);
  const auto arguments = parse_train_arguments(invocation.arguments, identity, command);
  if (!arguments) return 0;
  // The process that trains gets other arguments.
  auto environment = invocation.environment;
  set_command_variable(command_text(std::string(name_of(command)), invocation.arguments),
                       environment);
  if (identity.launched_by == topology::LaunchedBy::Nobody && takes_launcher(*arguments)) {
    return run_job(train_job(*arguments, program_beside(kTrainer)), environment);
  }
  const auto start = identity.launched_by == topology::LaunchedBy::Nobody
                         ? start_alone(*arguments, launch::discover_machine(), environment)
                         : start_in_job(*arguments, environment);
  hand_on(kTrainer, start.arguments, start.environment);
}

}  // namespace

int train_elsewhere(const Invocation& invocation) {
  return start_trainer(invocation, TrainCommand::Train);
}

int eval_elsewhere(const Invocation& invocation) {
  return start_trainer(invocation, TrainCommand::Eval);
}

int plan_elsewhere(const Invocation& invocation) {
  const auto identity = topology::read_identity(invocation.environment);
  const auto arguments = parse_train_arguments(invocation.arguments, identity, TrainCommand::Plan);
  if (!arguments) return 0;
  const auto start = start_alone(*arguments, launch::discover_machine(), invocation.environment);
  hand_on(kTrainer, start.arguments, start.environment);
}

}  // namespace lockstep::cli

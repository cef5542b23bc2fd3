#include <fmt/format.h>

#include <cstdio>

#include "lockstep/base/file.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/plan_text.h"
#include "lockstep/cli/train_arguments.h"
#include "lockstep/cli/train_start.h"
#include "lockstep/launch/discover/host_discovery.h"
#include "lockstep/launch/discover/machine_discovery.h"
#include "lockstep/plan/plan_json.h"
#include "lockstep/train/jobs/plan_training.h"
#include "lockstep/ui/progress.h"
#include "lockstep/ui/standard_output.h"
#include "lockstep/ui/train_display.h"

namespace lockstep::cli {
namespace {

/// The bar is complete when this returns.
train::PlannedTraining plan_as_asked(const TrainArguments& arguments) {
  const auto job = launch::plan_job(arguments.job.run, launch::discover_hosts("", ""),
                                    launch::discover_machine());
  ui::TrainDisplay display(ui::output_of_this_process(), ui::standard_error());
  return train::plan_training(arguments.request, job, display);
}

}  // namespace

int plan_here(const Invocation& invocation) {
  const auto identity = topology::read_identity(invocation.environment);
  const auto arguments = parse_train_arguments(invocation.arguments, identity, TrainCommand::Plan);
  if (!arguments) return 0;
  check_trainer_can_follow(*arguments);
  const auto planned = plan_as_asked(*arguments);
  fmt::print("{}", to_text(planned));
  for (const auto& warning : plan::warnings_of(planned.plan)) {
    fmt::print(stderr, "lockstep: warning: {}\n", warning);
  }
  if (!arguments->json_file.empty()) write_file(arguments->json_file, plan::to_json(planned.plan));
  return 0;
}

}  // namespace lockstep::cli

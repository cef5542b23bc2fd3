#include <fmt/format.h>

#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/train_arguments.h"
#include "lockstep/cli/train_start.h"
#include "lockstep/cli/train_summary_text.h"
#include "lockstep/train/train_job.h"
#include "lockstep/ui/progress.h"
#include "lockstep/ui/standard_output.h"
#include "lockstep/ui/train_display.h"

namespace lockstep::cli {
namespace {

/// Nothing: it was asked to stop. All instances are, but one tells of it.
std::optional<train::TrainSummary> run(const TrainArguments& arguments,
                                       const topology::Identity& identity) {
  ui::TrainDisplay display(ui::output_of_this_process(), ui::standard_error());
  try {
    return train::run_training(arguments.request, display);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Stopped || identity.instance == 0) throw;
    return std::nullopt;
  }
}

}  // namespace

int train_here(const Invocation& invocation) {
  const auto identity = topology::read_identity(invocation.environment);
  const auto arguments = parse_train_arguments(invocation.arguments, identity);
  if (!arguments) return 0;
  check_trainer_can_follow(*arguments);
  const auto summary = run(*arguments, identity);
  if (!summary) return exit_code(ErrorKind::Stopped);
  if (identity.instance != 0) return 0;
  fmt::print("{}", to_text(*summary));
  if (!arguments->request.summary_file.empty()) {
    write_file(arguments->request.summary_file, to_json(*summary));
  }
  return 0;
}

}  // namespace lockstep::cli

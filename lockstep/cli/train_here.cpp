#include <fmt/format.h>

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

int train_here(const Invocation& invocation) {
  const auto identity = topology::read_identity(invocation.environment);
  const auto arguments = parse_train_arguments(invocation.arguments, identity);
  if (!arguments) return 0;
  check_trainer_can_follow(*arguments);
  ui::TrainDisplay display(ui::output_of_this_process(), ui::standard_error());
  const auto summary = train::run_training(arguments->request, display);
  if (identity.instance != 0) return 0;
  fmt::print("{}", to_text(summary));
  if (!arguments->request.summary_file.empty()) {
    write_file(arguments->request.summary_file, to_json(summary));
  }
  return 0;
}

}  // namespace lockstep::cli

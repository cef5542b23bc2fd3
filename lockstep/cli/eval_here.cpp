#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>

#include "lockstep/base/file.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/evaluation_text.h"
#include "lockstep/cli/train_arguments.h"
#include "lockstep/cli/train_start.h"
#include "lockstep/data/pack/pack_dataset.h"
#include "lockstep/monitor/status/status_publisher.h"
#include "lockstep/train/jobs/evaluate_job.h"
#include "lockstep/train/jobs/train_job.h"
#include "lockstep/train/planner/job_layout.h"
#include "lockstep/ui/progress.h"
#include "lockstep/ui/standard_output.h"
#include "lockstep/ui/train_display.h"

namespace lockstep::cli {
namespace {

/// Datasets with their own mean and deviation. All others are normalized as packs are.
constexpr std::array<std::string_view, 4> kSetsWithStatistics{"cifar10", "cifar100",
                                                              "fashion-mnist", "mnist"};

/// A training with `--dataset cifar10` and a training with a pack of CIFAR-10 normalize the images
/// differently. With the wrong normalization, the accuracy would be low without an error.
void note_normalization(const train::TrainRequest& request) {
  if (!request.dataset.ends_with(".pack") || !request.normalize_as.empty()) return;
  const auto name = data::PackDataset::open(request.dataset)->footer().name;
  const auto set = std::string_view(name).substr(0, name.rfind('-'));
  if (std::ranges::find(kSetsWithStatistics, set) == kSetsWithStatistics.end()) return;
  fmt::print(stderr,
             "lockstep: note: {0} contains {1}. If the weights were trained with --dataset {1}, "
             "pass --normalize-as {1}\n",
             request.dataset, set);
}

train::EvaluationSummary evaluate_as_asked(const TrainArguments& arguments,
                                           const topology::Identity& identity,
                                           const topology::Environment& environment) {
  const bool is_first = identity.instance == 0;
  const auto kind = train::device_of(arguments.request) == DeviceKind::Cuda
                        ? monitor::DeviceKind::Cuda
                        : monitor::DeviceKind::Cpu;
  if (is_first) note_normalization(arguments.request);
  ui::TrainDisplay display(ui::output_of_this_process(), ui::standard_error());
  std::optional<monitor::StatusPublisher> status;
  const auto watch = [&](topology::Identity shown) -> events::Watchers {
    if (kind == monitor::DeviceKind::Cuda) {
      std::ranges::fill(shown.device_ids, train::gpu_of(shown.local_instance));
    }
    status.emplace(shown, environment, kind);
    if (is_first && !status->problem().empty()) {
      display.on_notice("'lockstep monitor' will not show this evaluation: " + status->problem());
    }
    return {.status = &*status};
  };
  return train::run_evaluation(arguments.request, arguments.evaluation, display, watch);
}

}  // namespace

int eval_here(const Invocation& invocation) {
  const auto identity = topology::read_identity(invocation.environment);
  const auto arguments = parse_train_arguments(invocation.arguments, identity, TrainCommand::Eval);
  if (!arguments) return 0;
  check_trainer_can_follow(*arguments);
  const auto summary = evaluate_as_asked(*arguments, identity, invocation.environment);
  if (identity.instance != 0) return 0;
  fmt::print("{}", to_text(summary));
  if (!arguments->json_file.empty()) write_file(arguments->json_file, to_json(summary));
  return 0;
}

}  // namespace lockstep::cli

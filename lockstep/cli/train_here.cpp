#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/file.h"
#include "lockstep/cli/command.h"
#include "lockstep/cli/command_line.h"
#include "lockstep/cli/train_arguments.h"
#include "lockstep/cli/train_report.h"
#include "lockstep/cli/train_start.h"
#include "lockstep/cli/train_summary_text.h"
#include "lockstep/cli/train_trace.h"
#include "lockstep/launch/discover/machine_discovery.h"
#include "lockstep/monitor/export/environment_facts.h"
#include "lockstep/monitor/export/tensorboard_log.h"
#include "lockstep/monitor/status/status_publisher.h"
#include "lockstep/train/jobs/train_job.h"
#include "lockstep/train/planner/job_layout.h"
#include "lockstep/ui/progress.h"
#include "lockstep/ui/standard_output.h"
#include "lockstep/ui/train_display.h"

namespace lockstep::cli {
namespace {

topology::Identity with_own_replicas(topology::Identity identity,
                                     const train::TrainRequest& request) {
  if (identity.launched_by != topology::LaunchedBy::Nobody) return identity;
  identity.num_replicas = request.replicas.value_or(1);
  identity.local_replicas = {0, identity.num_replicas};
  identity.devices_per_replica = request.devices_per_replica.value_or(1);
  identity.threads_per_device = request.threads_per_device;
  const int stages = identity.num_replicas * identity.devices_per_replica;
  const int devices = topology::devices_on_host(launch::discover_machine().usable_cores(),
                                                request.threads_per_device.value_or(1), stages);
  identity.device_ids.clear();
  for (int stage = 0; stage < stages; ++stage) identity.device_ids.push_back(stage % devices);
  return identity;
}

/// With the devices that will compute: a launcher counts cores, and a process that nobody launched
/// carries all replicas, as it will lay them out.
topology::Identity shown_identity(topology::Identity identity, const train::TrainRequest& request) {
  identity = with_own_replicas(std::move(identity), request);
  if (train::device_of(request) == DeviceKind::Cuda) {
    std::ranges::fill(identity.device_ids, train::gpu_of(identity.local_instance));
  }
  return identity;
}

monitor::DeviceKind shown_kind(const train::TrainRequest& request) {
  return train::device_of(request) == DeviceKind::Cuda ? monitor::DeviceKind::Cuda
                                                       : monitor::DeviceKind::Cpu;
}

/// What a run that finished leaves to be printed.
struct FinishedTraining {
  train::TrainSummary summary;
  std::optional<Error> report_error{};  ///< the report could not be written
};

/// A training run of this process with its display, status, TensorBoard file, report and trace.
class WatchedTraining {
 public:
  WatchedTraining(const TrainArguments& arguments, const topology::Identity& identity,
                  const Invocation& invocation)
      : request_(arguments.request),
        identity_(identity),
        display_(ui::output_of_this_process(), ui::standard_error()),
        status_(shown_identity(identity, request_), invocation.environment, shown_kind(request_)) {
    if (!status_.problem().empty() && is_first()) {
      fmt::print(stderr, "lockstep: 'lockstep monitor' will not show this training: {}\n",
                 status_.problem());
    }
    if (!request_.tensorboard_dir.empty() && is_first()) {
      tensorboard_.emplace(request_.tensorboard_dir,
                           [this](const std::string& text) { display_.on_notice(text); });
    }
    if (!request_.report_file.empty() && is_first()) {
      report_.emplace(arguments, shown_identity(identity, request_),
                      identity.command.value_or(command_text("train", invocation.arguments)),
                      monitor::library_facts(invocation.environment));
    }
    if (!request_.trace_file.empty()) begin_trace();
  }

  /// Returns nothing if this instance was asked to stop. All instances are, and instance 0 throws
  /// the error that says so.
  std::optional<FinishedTraining> run() {
    try {
      // Held during the training, because the trace needs the other instances afterwards.
      const auto world = World::init();
      FinishedTraining finished{.summary = train::run_training(request_, callbacks(), watchers())};
      if (trace_) write_trace(world);
      finished.report_error = write_report(finished.summary);
      return finished;
    } catch (const Error& error) {
      save_trace();
      save_report(error);
      if (error.kind() != ErrorKind::Stopped || is_first()) throw;
      return std::nullopt;
    }
  }

 private:
  bool is_first() const noexcept { return identity_.instance == 0; }

  std::vector<Callback*> callbacks() {
    std::vector<Callback*> callbacks{&display_};
    if (tensorboard_) callbacks.push_back(&*tensorboard_);
    if (report_) callbacks.push_back(&report_->recorder());
    return callbacks;
  }

  events::Watchers watchers() noexcept {
    return {.status = &status_, .spans = trace_ ? &trace_->tracks() : nullptr};
  }

  void begin_trace() {
    if (!status_.problem().empty()) {
      throw Error(ErrorKind::Io,
                  "train: --trace: expected a folder for what is recorded, found none: " +
                      status_.problem(),
                  "TMPDIR with a folder that you may write to");
    }
    const auto folder = std::filesystem::path(status_.path()).parent_path().string();
    trace_.emplace(request_.trace_file, folder, identity_);
  }

  /// The training is done, whatever becomes of its trace.
  void write_trace(const World& world) {
    try {
      trace_->write(world);
    } catch (const Error& error) {
      if (is_first()) display_.on_notice(fmt::format("there is no trace: {}", error.what()));
    }
  }

  /// What failed is what the user has to hear of, not that there is no trace of it.
  void save_trace() const noexcept {
    try {
      if (trace_) trace_->write_what_is_here();
    } catch (const std::exception&) {
    }
  }

  /// Returns what went wrong. The summary is printed first.
  std::optional<Error> write_report(const train::TrainSummary& summary) {
    try {
      if (report_) report_->write(summary);
    } catch (const Error& error) {
      return error;
    }
    return std::nullopt;
  }

  /// The user has to hear why the run ended, not that its report could not be written.
  void save_report(const Error& reason) noexcept {
    try {
      if (report_) report_->write(reason);
    } catch (const std::exception&) {
    }
  }

  const train::TrainRequest& request_;
  topology::Identity identity_;
  ui::TrainDisplay display_;
  monitor::StatusPublisher status_;
  std::optional<monitor::TensorBoardLog> tensorboard_;
  std::optional<TrainReport> report_;
  std::optional<TrainTrace> trace_;
};

}  // namespace

int train_here(const Invocation& invocation) {
  const auto identity = topology::read_identity(invocation.environment);
  const auto arguments = parse_train_arguments(invocation.arguments, identity);
  if (!arguments) return 0;
  check_trainer_can_follow(*arguments);
  const auto& request = arguments->request;
  const auto finished = WatchedTraining(*arguments, identity, invocation).run();
  if (!finished) return exit_code(ErrorKind::Stopped);
  if (identity.instance != 0) return 0;
  const auto& summary = finished->summary;
  fmt::print("{}", to_text(summary));
  if (!request.summary_file.empty()) write_file(request.summary_file, to_json(summary));
  if (finished->report_error) throw Error(*finished->report_error);
  return 0;
}

}  // namespace lockstep::cli

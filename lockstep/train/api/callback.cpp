#include "lockstep/train/api/callback.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/monitor/export/environment_facts.h"
#include "lockstep/monitor/export/report_file.h"
#include "lockstep/monitor/export/run_recorder.h"
#include "lockstep/monitor/export/tensorboard_log.h"
#include "lockstep/topology/environment.h"
#include "lockstep/topology/identity.h"

namespace lockstep {

namespace {

/// Sets options of the model.
class OptionsCallback final : public Callback {
 public:
  explicit OptionsCallback(std::function<void(Options&)> set) : set_(std::move(set)) {}
  void prepare(Options& options) override { set_(options); }

 private:
  std::function<void(Options&)> set_;
};

class EarlyStopCallback final : public Callback {
 public:
  explicit EarlyStopCallback(const EarlyStopOptions& options) : options_(options) {}

  void on_fit_begin(const FitShape& shape) override { validates_ = shape.validations > 0; }

  /// Counts from the beginning each time, so that a resumed run makes the same decision. If the
  /// training validates, epochs without a validation do not count.
  bool goes_on(const History& history) override {
    int since_best = 0;
    std::optional<double> best;
    for (const auto& epoch : history.epochs) {
      if (validates_ && !epoch.validation) continue;
      const double value = sign() * value_of(epoch, options_.metric);
      const bool is_better = !best || value < *best - options_.min_delta;
      if (is_better) best = value;
      since_best = is_better ? 0 : since_best + 1;
    }
    return since_best <= options_.patience;
  }

 private:
  double sign() const noexcept { return options_.goal == Goal::Least ? 1 : -1; }

  EarlyStopOptions options_;
  bool validates_ = false;
};

/// Writes the curves of a training with another callback, which is made later than this one.
class CurvesCallback : public Callback {
 public:
  CalledOn called_on() const noexcept override { return CalledOn::FirstInstance; }
  bool on_notice(const std::string& text) override {
    return to_ != nullptr && to_->on_notice(text);
  }
  void on_fit_begin(const FitShape& shape) override { to_->on_fit_begin(shape); }
  void on_epoch_begin(int epoch, std::int64_t iterations) override {
    to_->on_epoch_begin(earlier_epochs_ + epoch, iterations);
  }
  void on_iteration(int epoch, std::int64_t iteration, const IterationResult& result) override {
    to_->on_iteration(earlier_epochs_ + epoch, iteration, result);
  }
  void on_epoch_trained(int epoch, const StepResult& result) override {
    to_->on_epoch_trained(earlier_epochs_ + epoch, result);
  }
  void on_validated(int epoch, const StepResult& result) override {
    to_->on_validated(earlier_epochs_ + epoch, result);
  }

 protected:
  std::unique_ptr<Callback> to_;
  int earlier_epochs_ = 0;  ///< added to the epochs, so that the calls of `fit` follow each other
};

/// Opens its file when the model is made, so that an error is an error of `Trainer::fit`.
class TensorBoardCallback final : public CurvesCallback {
 public:
  explicit TensorBoardCallback(std::string folder) : folder_(std::move(folder)) {}

  void prepare(Options& /*options*/) override {
    to_ = std::make_unique<monitor::TensorBoardLog>(
        folder_, [](const std::string& text) { log_warning(text); });
  }

 private:
  std::string folder_;
};

class ReportCallback final : public CurvesCallback {
 public:
  explicit ReportCallback(ReportOptions options) : options_(std::move(options)) {}

  void prepare(Options& options) override {
    monitor::check_report_file(where(), options_.file);
    identity_ = options.world().identity();
  }

  void on_fit_begin(const FitShape& shape) override {
    if (!to_) make_recorder(shape);
    CurvesCallback::on_fit_begin(shape);
  }

  void on_fit_end(const History& history, TrainingModel& model) override {
    auto report = begun_report();
    if (history.stopped_early) report.reason = "A callback ended the training early.";
    if (!history.epochs.empty()) {
      earlier_epochs_ += history.epochs.back().epoch;
      add_results(history.epochs.back(), report);
    }
    report.digest = model.digest();
    report.phases = {{.name = "instance 0", .seconds = model.perf().seconds()}};
    monitor::write_report(where(), options_.file, report);
  }

  void on_fit_failed(const Error& error) noexcept override {
    if (recorder_ == nullptr) return;
    try {
      auto report = begun_report();
      report.outcome = error.kind() == ErrorKind::Stopped ? monitor::RunReport::Outcome::Stopped
                                                          : monitor::RunReport::Outcome::Failed;
      report.reason = fmt::format("{} (exit code {})", error.what(), exit_code(error.kind()));
      monitor::write_report(where(), options_.file, report);
    } catch (const std::exception&) {
      // The error of the training is more important.
    }
  }

 private:
  std::string where() const { return "callbacks::report " + options_.file; }

  void make_recorder(const FitShape& shape) {
    monitor::RunRecorder::Options options{.steps_per_iteration = shape.steps_per_iteration,
                                          .samples_per_iteration = shape.samples_per_iteration,
                                          .evaluation = "validation"};
    if (!identity_->run_dir.empty()) options.file = identity_->run_dir + "/report-curves";
    auto recorder = std::make_unique<monitor::RunRecorder>(std::move(options));
    recorder_ = recorder.get();
    to_ = std::move(recorder);
  }

  static void add_results(const EpochResult& last, monitor::RunReport& to) {
    const auto add = [&](const std::string& name, const StepResult& result) {
      to.results.push_back({name + " loss", fmt::format("{:.4f}", result.loss)});
      for (const auto& [metric, value] : result.metrics) {
        to.results.push_back({name + " " + metric, fmt::format("{:.2f}", value)});
      }
    };
    to.results.push_back({"epochs", fmt::format("{}", last.epoch)});
    add("training", last.training);
    if (last.validation) add("validation", *last.validation);
  }

  monitor::RunReport begun_report() {
    monitor::RunReport report{.title = options_.title};
    report.written_s = unix_seconds();
    report.charts = recorder_->charts();
    report.events = monitor::events_of_job(identity_->events_file);
    report.environment = monitor::machine_facts();
    for (auto& fact : monitor::build_facts()) report.environment.push_back(std::move(fact));
    report.environment.push_back({"instances", fmt::format("{}", identity_->num_instances)});
    report.environment.push_back({"restarts", fmt::format("{}", identity_->restart_count)});
    for (auto& fact : monitor::library_facts(topology::Environment::of_this_process())) {
      report.environment.push_back(std::move(fact));
    }
    report.command = identity_->command.value_or(monitor::command_of_this_process());
    return report;
  }

  ReportOptions options_;
  std::optional<topology::Identity> identity_;
  monitor::RunRecorder* recorder_ = nullptr;  ///< `to_`
};

}  // namespace

namespace callbacks {

CallbackPtr checkpoint(CheckpointOptions options) {
  return std::make_shared<OptionsCallback>([options = std::move(options)](Options& model) {
    model.checkpoints(options).resume("auto");
  });
}

CallbackPtr learning_rate(const Schedule& schedule, int epochs) {
  return std::make_shared<OptionsCallback>(
      [schedule, epochs](Options& model) { model.schedule(schedule, epochs); });
}

CallbackPtr early_stop(const EarlyStopOptions& options) {
  if (options.patience < 0 || !(options.min_delta >= 0) || std::isinf(options.min_delta)) {
    throw Error(
        ErrorKind::Options,
        fmt::format(
            "callbacks::early_stop: expected a patience and a min_delta of 0 or more, found "
            "{} and {}",
            options.patience, options.min_delta));
  }
  return std::make_shared<EarlyStopCallback>(options);
}

CallbackPtr log(Callback& callback) {
  return {CallbackPtr(), &callback};  // owns nothing
}

CallbackPtr tensorboard(const std::string& folder) {
  return std::make_shared<TensorBoardCallback>(folder);
}

CallbackPtr report(const ReportOptions& options) {
  return std::make_shared<ReportCallback>(options);
}

}  // namespace callbacks
}  // namespace lockstep

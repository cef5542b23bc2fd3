#include "lockstep/train/callback.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/monitor/export/environment_facts.h"
#include "lockstep/monitor/export/report_file.h"
#include "lockstep/monitor/export/run_recorder.h"
#include "lockstep/monitor/export/tensorboard_log.h"
#include "lockstep/topology/identity.h"

namespace lockstep {

void Callback::prepare(Options& /*options*/) {}
void Callback::on_fit_begin(const FitShape& /*shape*/) {}
void Callback::on_fit_end(const History& /*history*/, TrainingModel& /*model*/) {}
void Callback::on_fit_failed(const Error& /*error*/) noexcept {}
void Callback::on_epoch_begin(int /*epoch*/, std::int64_t /*iterations*/) {}
void Callback::on_iteration(int /*epoch*/, std::int64_t /*iteration*/,
                            const IterationResult& /*result*/) {}
void Callback::on_epoch_trained(int /*epoch*/, const StepResult& /*result*/) {}
void Callback::on_validation_begin(int /*epoch*/, std::int64_t /*local_batches*/) {}
void Callback::on_validation_batch(std::int64_t /*done*/) {}
void Callback::on_validated(int /*epoch*/, const StepResult& /*result*/) {}
bool Callback::goes_on(const History& /*history*/) {
  return true;
}

namespace {

class CheckpointCallback final : public Callback {
 public:
  explicit CheckpointCallback(CheckpointOptions options) : options_(std::move(options)) {}
  void prepare(Options& options) override { options.checkpoints(options_).resume("auto"); }

 private:
  CheckpointOptions options_;
};

class LearningRateCallback final : public Callback {
 public:
  LearningRateCallback(const Schedule& schedule, int epochs)
      : schedule_(schedule), epochs_(epochs) {}
  void prepare(Options& options) override { options.schedule(schedule_, epochs_); }

 private:
  Schedule schedule_;
  int epochs_;
};

class EarlyStopCallback final : public Callback {
 public:
  explicit EarlyStopCallback(const EarlyStopOptions& options) : options_(options) {}

  /// All of it is counted anew each time, so that a run that was cut off decides as another.
  bool goes_on(const History& history) override {
    int since_best = 0;
    double best = sign() * value_of(history.epochs.front(), options_.metric);
    for (const auto& epoch : history.epochs) {
      const double value = sign() * value_of(epoch, options_.metric);
      const bool is_better = value < best - options_.min_delta;
      since_best = is_better || &epoch == &history.epochs.front() ? 0 : since_best + 1;
      if (is_better) best = value;
    }
    return since_best <= options_.patience;
  }

 private:
  double sign() const noexcept { return options_.goal == Goal::Least ? 1 : -1; }

  EarlyStopOptions options_;
};

/// Tells a sink, where there is one.
class TellingCallback : public Callback {
 public:
  void on_fit_begin(const FitShape& shape) override { shape_ = shape; }
  void on_epoch_begin(int epoch, std::int64_t iterations) override {
    iterations_ = iterations;
    // A validation follows each epoch, or none.
    const int validations = shape_.validations == 0 ? 0 : shape_.epochs - epoch + 1;
    tell(events::EpochBegan{epoch, iterations, shape_.epochs, validations});
  }
  void on_iteration(int epoch, std::int64_t iteration, const IterationResult& result) override {
    tell(events::IterationDone{epoch, iteration, result.loss, result.metrics});
  }
  void on_epoch_trained(int epoch, const StepResult& result) override {
    tell(events::EpochDone{epoch, iterations_, result.loss, result.metrics});
  }
  void on_validation_begin(int epoch, std::int64_t local_batches) override {
    tell(events::EvaluationBegan{epoch, local_batches});
  }
  void on_validation_batch(std::int64_t done) override { tell(events::EvaluationAdvanced{done}); }
  void on_validated(int epoch, const StepResult& result) override {
    tell(events::EvaluationDone{epoch, result.loss, result.metrics});
  }

 protected:
  static bool is_first(const Options& options) { return options.world().instance() == 0; }
  void tell_to(events::TrainSink& sink) noexcept { sink_ = &sink; }

 private:
  template <typename Event>
  void tell(const Event& event) {
    if (sink_ != nullptr) sink_->on(event);
  }

  events::TrainSink* sink_ = nullptr;
  FitShape shape_;
  std::int64_t iterations_ = 0;
};

class LogCallback final : public TellingCallback {
 public:
  explicit LogCallback(events::TrainSink& sink) : sink_(sink) {}
  void prepare(Options& options) override {
    if (is_first(options)) tell_to(sink_);
  }

 private:
  events::TrainSink& sink_;
};

/// Behind curves, which nobody has to show: hears that they end early.
class WarningSink final : public events::TrainSink {
 public:
  void on(const events::Preparing& /*event*/) override {}
  void on(const events::EpochBegan& /*event*/) override {}
  void on(const events::IterationDone& /*event*/) override {}
  void on(const events::EpochDone& /*event*/) override {}
  void on(const events::EvaluationBegan& /*event*/) override {}
  void on(const events::EvaluationAdvanced& /*event*/) override {}
  void on(const events::EvaluationDone& /*event*/) override {}
  void on(const events::Notice& event) override { log_warning(event.text); }
};

class TensorBoardCallback final : public TellingCallback {
 public:
  explicit TensorBoardCallback(std::string folder) : folder_(std::move(folder)) {}
  void prepare(Options& options) override {
    if (is_first(options)) tell_to(curves_.emplace(folder_, warnings_));
  }

 private:
  std::string folder_;
  WarningSink warnings_;
  std::optional<monitor::TensorBoardLog> curves_;
};

double seconds_since_epoch() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class ReportCallback final : public Callback {
 public:
  explicit ReportCallback(ReportOptions options) : options_(std::move(options)) {}

  void prepare(Options& options) override {
    if (options.world().instance() != 0) return;
    monitor::check_report_file(where(), options_.file);
    identity_ = options.world().identity();
  }

  void on_fit_begin(const FitShape& shape) override {
    if (!identity_) return;
    shape_ = shape;
    if (!recorder_) recorder_.emplace(recorder_options(), warnings_);
  }
  void on_epoch_begin(int epoch, std::int64_t iterations) override {
    tell(events::EpochBegan{earlier_epochs_ + epoch, iterations});
  }
  void on_iteration(int epoch, std::int64_t iteration, const IterationResult& result) override {
    tell(events::IterationDone{earlier_epochs_ + epoch, iteration, result.loss, result.metrics});
  }
  void on_epoch_trained(int epoch, const StepResult& result) override {
    tell(
        events::EpochDone{earlier_epochs_ + epoch, shape_.iterations, result.loss, result.metrics});
  }
  void on_validated(int epoch, const StepResult& result) override {
    tell(events::EvaluationDone{earlier_epochs_ + epoch, result.loss, result.metrics});
  }

  void on_fit_end(const History& history, TrainingModel& model) override {
    if (!recorder_) return;
    auto report = begun_report();
    if (history.stopped_early) report.reason = "A callback ended the training early.";
    if (!history.epochs.empty()) {
      earlier_epochs_ += history.epochs.back().epoch;
      add_results(history.epochs.back(), report);
    }
    report.digest = model.digest();
    const auto perf = model.perf();
    report.phases = {{.name = "instance 0",
                      .seconds = {.data = perf.data.total,
                                  .compute = perf.compute.total,
                                  .reduce = perf.reduce.total,
                                  .idle = perf.idle.total}}};
    monitor::write_report(where(), options_.file, report);
  }

  void on_fit_failed(const Error& error) noexcept override {
    if (!recorder_) return;
    try {
      auto report = begun_report();
      report.outcome = error.kind() == ErrorKind::Stopped ? monitor::RunReport::Outcome::Stopped
                                                          : monitor::RunReport::Outcome::Failed;
      report.reason = fmt::format("{} (exit code {})", error.what(), exit_code(error.kind()));
      monitor::write_report(where(), options_.file, report);
    } catch (const std::exception&) {
      // The user has to hear of the error itself.
    }
  }

 private:
  std::string where() const { return "callbacks::report " + options_.file; }

  monitor::RunRecorder::Options recorder_options() const {
    monitor::RunRecorder::Options options{.steps_per_iteration = shape_.steps_per_iteration,
                                          .samples_per_iteration = shape_.samples_per_iteration,
                                          .evaluation = "validation"};
    if (!identity_->run_dir.empty()) options.file = identity_->run_dir + "/report-curves";
    return options;
  }

  template <typename Event>
  void tell(const Event& event) {
    if (recorder_) recorder_->on(event);
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
    report.written_s = seconds_since_epoch();
    report.charts = recorder_->charts();
    report.events = monitor::events_of_job(identity_->events_file);
    report.environment = monitor::machine_facts();
    for (auto& fact : monitor::build_facts()) report.environment.push_back(std::move(fact));
    report.environment.push_back({"instances", fmt::format("{}", identity_->num_instances)});
    report.environment.push_back({"restarts", fmt::format("{}", identity_->restart_count)});
    report.command = monitor::command_of_this_process();
    return report;
  }

  ReportOptions options_;
  WarningSink warnings_;
  std::optional<topology::Identity> identity_;  ///< on instance 0
  std::optional<monitor::RunRecorder> recorder_;
  FitShape shape_;
  std::int64_t earlier_epochs_ = 0;  ///< of earlier calls of `fit`
};

}  // namespace

namespace callbacks {

CallbackPtr checkpoint(CheckpointOptions options) {
  return std::make_shared<CheckpointCallback>(std::move(options));
}

CallbackPtr learning_rate(const Schedule& schedule, int epochs) {
  return std::make_shared<LearningRateCallback>(schedule, epochs);
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

CallbackPtr log(events::TrainSink& sink) {
  return std::make_shared<LogCallback>(sink);
}

CallbackPtr tensorboard(const std::string& folder) {
  return std::make_shared<TensorBoardCallback>(folder);
}

CallbackPtr report(const ReportOptions& options) {
  return std::make_shared<ReportCallback>(options);
}

}  // namespace callbacks
}  // namespace lockstep

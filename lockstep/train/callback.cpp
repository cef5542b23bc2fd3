#include "lockstep/train/callback.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/monitor/export/tensorboard_log.h"

namespace lockstep {

void Callback::prepare(Options& /*options*/) {}
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
  void on_epoch_begin(int epoch, std::int64_t iterations) override {
    iterations_ = iterations;
    tell(events::EpochBegan{epoch, iterations});
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

}  // namespace callbacks
}  // namespace lockstep

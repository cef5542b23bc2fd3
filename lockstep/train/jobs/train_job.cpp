#include "lockstep/train/jobs/train_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/base/process_facts.h"
#include "lockstep/train/api/callback.h"
#include "lockstep/train/api/trainer.h"
#include "lockstep/train/jobs/train_setup.h"
#include "lockstep/train/recovery/stop_signals.h"
#include "lockstep/weights/digest_log.h"

namespace lockstep::train {
namespace {

/// Writes the digests of all weights after every N optimizer steps.
class DigestCallback final : public Callback {
 public:
  explicit DigestCallback(const TrainRequest& request) : request_(request) {}

  CalledOn called_on() const noexcept override { return CalledOn::FirstInstance; }

  void on_compiled(TrainingModel& model) override {
    const auto resumed = model.resumed().step;
    std::filesystem::create_directories(request_.log_dir);
    log_.emplace(std::filesystem::path(request_.log_dir) / weights::kDigestLogName,
                 weights::DigestLogHeader{
                     .replicas = model.replicas(),
                     .threads_per_device = model.threads_per_device(),
                     .facts = {{"model", request_.model.model}, {"dataset", request_.dataset}}},
                 resumed > 0 ? std::optional(resumed) : std::nullopt);
    // The earlier run may have been killed between a step and its record.
    const bool is_missing = resumed > 0 && resumed % request_.digest_every == 0 &&
                            log_->last_step() == resumed - request_.digest_every;
    if (is_missing) write(resumed, {}, model);
  }

  void on_step(std::int64_t step, const StepResult& result, TrainingModel& model) override {
    if (step % request_.digest_every == 0) write(step, result.replica_losses, model);
  }

 private:
  void write(std::int64_t step, const std::vector<float>& losses, TrainingModel& model) {
    weights::DigestStep record{.step = step, .losses = losses, .tensors = {}};
    for (auto& [name, digest] : model.digests()) record.tensors.emplace(name, digest);
    log_->append(record);
  }

  const TrainRequest& request_;
  std::optional<weights::DigestLogWriter> log_;
};

/// Takes a checkpoint after the last epoch.
class LastCheckpointCallback final : public Callback {
 public:
  void on_fit_end(const History& /*history*/, TrainingModel& model) override { model.checkpoint(); }
};

/// Measures the run for its summary, on every instance.
class SummaryCallback final : public Callback {
 public:
  void on_step(std::int64_t /*step*/, const StepResult& /*result*/,
               TrainingModel& /*model*/) override {
    last_step_unix_s = unix_seconds();
    if (first_step_unix_s != 0) return;
    first_step_unix_s = last_step_unix_s;
    time_to_first_step_s = process_age();
  }
  void on_epoch_begin(int /*epoch*/, std::int64_t /*iterations*/) override {
    epoch_begin_ = Clock::now();
  }
  void on_epoch_trained(int /*epoch*/, const StepResult& /*result*/) override {
    if (!epoch_begin_) return;
    train_seconds += std::chrono::duration<double>(Clock::now() - *epoch_begin_).count();
    epoch_begin_.reset();
  }
  void on_fit_end(const History& history, TrainingModel& /*model*/) override {
    if (!history.epochs.empty()) test = history.epochs.back().validation;
  }
  /// Also for a run without epochs, which has no history.
  void on_validated(int /*epoch*/, const StepResult& result) override { test = result; }

  double train_seconds = 0;
  double time_to_first_step_s = 0;
  double first_step_unix_s = 0;
  double last_step_unix_s = 0;
  std::optional<StepResult> test;

 private:
  using Clock = std::chrono::steady_clock;

  std::optional<Clock::time_point> epoch_begin_;
};

/// One training, from its dataset to its summary.
class TrainJob {
 public:
  TrainJob(const TrainRequest& request, const std::vector<Callback*>& callbacks,
           const events::Watchers& watchers)
      : request_(request), callbacks_(callbacks), options_(options_of(request)) {
    options_.watch(watchers);
    if (!request.checkpoint_dir.empty()) signals_.emplace();
  }

  TrainSummary run() {
    options_.watchers().enter(events::Phase::Preparing);
    report("reading the dataset");
    const auto set = data::open_set(request_.dataset, data::Split::Train, request_.set);
    loader_.emplace(train_loader(request_, options_, set));
    if (const auto name = test_set_name(request_.dataset)) {
      test_loader_.emplace(
          test_loader(request_, options_, data::open_set(*name, data::Split::Test, request_.set)));
    }
    if (request_.epochs > 0) {
      check(request_.schedule, {loader_->steps_per_epoch(), request_.epochs});
    }
    report("creating the network");
    auto model = open_model(request_, *set);
    report("connecting to the other instances");
    options_.world().communicator().barrier("prepare");
    Trainer trainer(std::move(model), options_, request_.optimizer, task_of(request_));
    add_callbacks(trainer);
    warn_of_limits();
    trainer.fit(*loader_, {.epochs = static_cast<int>(request_.epochs),
                           .validation = test_loader_ ? &*test_loader_ : nullptr,
                           .validate_every = static_cast<int>(request_.eval_every),
                           .validated_weights = tested_weights(),
                           .preparations = kPreparations});
    model_ = &trainer.model();
    return finish();
  }

 private:
  static constexpr int kPreparations = 3;  ///< before those of `Trainer::fit`

  void report(const char* what) {
    if (options_.world().instance() != 0) return;
    for (auto* callback : callbacks_) {
      callback->on_preparing({what, prepared_, kPreparations + 2});
    }
    ++prepared_;
  }

  void add_callbacks(Trainer& trainer) {
    for (auto* callback : callbacks_) trainer.add(callbacks::log(*callback));
    trainer.add(callbacks::log(measured_));
    if (request_.digest_every > 0) trainer.add(std::make_shared<DigestCallback>(request_));
    if (!request_.checkpoint_dir.empty()) {
      trainer.add(std::make_shared<LastCheckpointCallback>());
    }
  }

  /// Warns if the CPU cannot compute in the requested precision.
  void warn_of_limits() {
    if (request_.precision == Precision::P32_32 || options_.device() != DeviceKind::Cpu) return;
    if (options_.world().instance() != 0) return;
    for (auto* callback : callbacks_) {
      callback->on_notice(fmt::format(
          "this CPU computes in 32 bits: {} applies to the input{}", name_of(request_.half),
          request_.precision == Precision::P16_16 ? " and to gradients" : ""));
    }
  }

  WeightsKind tested_weights() const {
    return request_.optimizer.average_decay() ? WeightsKind::Average : WeightsKind::Trained;
  }

  /// The time that each instance spent in each phase.
  std::vector<events::PhaseSeconds> seconds_by_instance() {
    static_assert(sizeof(events::PhaseSeconds) == 4 * sizeof(double));
    const auto mine = model_->perf().seconds();
    std::vector<events::PhaseSeconds> all(
        static_cast<std::size_t>(options_.world().num_instances()));
    options_.world().all_gather({&mine, 4, DataType::F64, "time shares"},
                                {all.data(), 4 * std::ssize(all), DataType::F64, "time shares"});
    return all;
  }

  /// The mean over the instances.
  static TimeShares time_shares(const std::vector<events::PhaseSeconds>& instances) {
    events::PhaseSeconds sum;
    for (const auto& seconds : instances) sum += seconds;
    const auto all = std::max(sum.data + sum.compute + sum.reduce + sum.idle, 1e-9);
    return {.data = sum.data / all,
            .compute = sum.compute / all,
            .reduce = sum.reduce / all,
            .idle = sum.idle / all};
  }

  std::int64_t most_private_bytes() {
    std::int64_t bytes = private_memory();
    options_.world().all_reduce({&bytes, 1, DataType::I64, "memory"}, comm::ReduceOp::Max);
    return bytes;
  }

  TrainSummary finish() {
    if (!request_.export_to.empty()) model_->save(request_.export_to, tested_weights());
    options_.watchers().enter(events::Phase::Finishing);
    const auto& shape = loader_->shape();
    TrainSummary summary{.model = request_.model.model,
                         .dataset = request_.dataset,
                         .replicas = model_->replicas(),
                         .instances = options_.world().num_instances(),
                         .threads_per_device = model_->threads_per_device(),
                         .batch_size = shape.batch_size,
                         .gradient_accumulation = shape.gradient_accumulation,
                         .device_iterations = shape.device_iterations,
                         .epochs = request_.epochs,
                         .optimizer_steps = model_->steps()};
    summary.samples = summary.optimizer_steps * shape.samples_per_step();
    summary.resumed_at = model_->resumed().step;
    summary.precision = name_of(request_.precision);
    summary.seed = request_.seed;
    summary.train_seconds = measured_.train_seconds;
    summary.samples_per_second =
        measured_.train_seconds > 0
            ? static_cast<double>((summary.optimizer_steps - summary.resumed_at) *
                                  shape.samples_per_step()) /
                  measured_.train_seconds
            : 0;
    summary.time_to_first_step_s = measured_.time_to_first_step_s;
    summary.first_step_unix_s = measured_.first_step_unix_s;
    summary.last_step_unix_s = measured_.last_step_unix_s;
    summary.seconds = seconds_by_instance();
    summary.time = time_shares(summary.seconds);
    summary.hosts = options_.world().communicator().num_hosts();
    summary.loader_workers = loader_->workers();
    for (const auto& stage : model_->perf().stages) {
      summary.stages.push_back({stage.forward.mean(), stage.backward.mean()});
    }
    summary.memory = model_->memory();
    summary.checkpoints = model_->checkpoint_cost();
    summary.private_bytes = most_private_bytes();
    if (request_.epochs > 0) {
      const auto last_epoch = model_->epoch_so_far();  // an earlier run may have trained it
      summary.train_loss = last_epoch.loss;
      summary.train_metrics = last_epoch.metrics;
    }
    if (const auto& test = measured_.test) {
      summary.test_loss = test->loss;
      summary.test_metrics = test->metrics;
    }
    summary.weights = model_->digest();
    return summary;
  }

  const TrainRequest& request_;
  const std::vector<Callback*>& callbacks_;
  Options options_;
  std::optional<StopSignals> signals_;  ///< handles signals from the beginning of the preparation
  std::optional<DataLoader> loader_;
  std::optional<EvaluationLoader> test_loader_;
  SummaryCallback measured_;
  TrainingModel* model_ = nullptr;
  int prepared_ = 0;
};

}  // namespace

TrainSummary run_training(const TrainRequest& request, const std::vector<Callback*>& callbacks,
                          const events::Watchers& watchers) {
  return TrainJob(request, callbacks, watchers).run();
}

}  // namespace lockstep::train

#include "lockstep/train/jobs/train_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

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
  explicit SummaryCallback(TrainSummary& to) : to_(to) {}

  void on_step(std::int64_t /*step*/, const StepResult& /*result*/,
               TrainingModel& /*model*/) override {
    to_.last_step_unix_s = unix_seconds();
    if (to_.first_step_unix_s != 0) return;
    to_.first_step_unix_s = to_.last_step_unix_s;
    to_.time_to_first_step_s = process_age();
  }
  void on_epoch_begin(int /*epoch*/, std::int64_t /*iterations*/) override { epoch_.emplace(); }
  void on_epoch_trained(int /*epoch*/, const StepResult& /*result*/) override {
    if (epoch_) to_.train_seconds += epoch_->lap();
    epoch_.reset();
  }
  void on_fit_end(const History& history, TrainingModel& /*model*/) override {
    if (!history.epochs.empty()) set_test(history.epochs.back().validation);
  }
  /// Also for a run without epochs, which has no history.
  void on_validated(int /*epoch*/, const StepResult& result) override { set_test(result); }

 private:
  void set_test(const std::optional<StepResult>& test) {
    to_.test_loss = test ? std::optional(test->loss) : std::nullopt;
    to_.test_metrics = test ? test->metrics : std::vector<events::NamedValue>();
  }

  TrainSummary& to_;
  std::optional<Stopwatch> epoch_;
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

  /// The time of each phase, by instance.
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
    auto& to = summary_;
    to.model = request_.model.model;
    to.dataset = request_.dataset;
    to.replicas = model_->replicas();
    to.instances = options_.world().num_instances();
    to.threads_per_device = model_->threads_per_device();
    to.batch_size = shape.batch_size;
    to.gradient_accumulation = shape.gradient_accumulation;
    to.device_iterations = shape.device_iterations;
    to.epochs = request_.epochs;
    to.optimizer_steps = model_->steps();
    to.samples = to.optimizer_steps * shape.samples_per_step();
    to.resumed_at = model_->resumed().step;
    to.precision = name_of(request_.precision);
    to.seed = request_.seed;
    if (to.train_seconds > 0) {
      const auto samples = (to.optimizer_steps - to.resumed_at) * shape.samples_per_step();
      to.samples_per_second = static_cast<double>(samples) / to.train_seconds;
    }
    to.seconds = seconds_by_instance();
    to.time = time_shares(to.seconds);
    to.hosts = options_.world().communicator().num_hosts();
    to.loader_workers = loader_->workers();
    for (const auto& stage : model_->perf().stages) {
      to.stages.push_back({stage.forward.mean(), stage.backward.mean()});
    }
    to.memory = model_->memory();
    to.checkpoints = model_->checkpoint_cost();
    to.private_bytes = most_private_bytes();
    if (request_.epochs > 0) {
      auto last_epoch = model_->epoch_so_far();  // an earlier run may have trained it
      to.train_loss = last_epoch.loss;
      to.train_metrics = std::move(last_epoch.metrics);
    }
    to.weights = model_->digest();
    return std::move(to);
  }

  const TrainRequest& request_;
  const std::vector<Callback*>& callbacks_;
  Options options_;
  std::optional<StopSignals> signals_;  ///< handles signals from the beginning of the preparation
  std::optional<DataLoader> loader_;
  std::optional<EvaluationLoader> test_loader_;
  TrainSummary summary_;
  SummaryCallback measured_{summary_};
  TrainingModel* model_ = nullptr;
  int prepared_ = 0;
};

}  // namespace

TrainSummary run_training(const TrainRequest& request, const std::vector<Callback*>& callbacks,
                          const events::Watchers& watchers) {
  return TrainJob(request, callbacks, watchers).run();
}

}  // namespace lockstep::train

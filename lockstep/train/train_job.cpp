#include "lockstep/train/train_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>

#include "lockstep/base/error.h"
#include "lockstep/base/process_facts.h"
#include "lockstep/train/stop_signals.h"
#include "lockstep/train/train_setup.h"
#include "lockstep/train/training_model.h"
#include "lockstep/weights/digest_log.h"

namespace lockstep::train {
namespace {

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// One training, from its dataset to its summary.
class TrainJob {
 public:
  TrainJob(const TrainRequest& request, events::TrainSink& sink, const events::Watchers& watchers)
      : request_(request), sink_(sink), options_(options_of(request)) {
    options_.watch(watchers);
    if (!request.checkpoint_dir.empty()) signals_.emplace();
  }

  TrainSummary run() {
    prepare();
    for (const int epoch : model_->epochs(static_cast<int>(request_.epochs))) {
      train_epoch(epoch);
      const bool is_last = epoch == request_.epochs;
      if (is_last || (request_.eval_every > 0 && epoch % request_.eval_every == 0)) {
        evaluate(epoch);
      }
    }
    // Where nothing was left to train, an earlier run has told what came of it, if anybody heard.
    if (!test_) evaluate(request_.epochs);
    if (!request_.checkpoint_dir.empty()) model_->checkpoint();
    return finish();
  }

 private:
  static constexpr int kPreparations = 5;

  bool is_first() const { return options_.world().instance() == 0; }

  template <typename Event>
  void tell(const Event& event) {
    if (is_first()) sink_.on(event);
  }

  void preparing(const char* what) { tell(events::Preparing{what, prepared_++, kPreparations}); }

  void prepare() {
    options_.watchers().enter(events::Phase::Preparing);
    preparing("reading the dataset");
    const auto set = data::open_set(request_.dataset, data::Split::Train, request_.set);
    loader_.emplace(train_loader(request_, options_, set));
    if (const auto name = test_set_name(request_.dataset)) {
      test_loader_.emplace(
          test_loader(request_, options_, data::open_set(*name, data::Split::Test, request_.set)));
    }
    if (request_.epochs > 0) {
      check(request_.schedule, {loader_->steps_per_epoch(), request_.epochs});
    }
    preparing("creating the network");
    auto model = open_model(request_, *set);
    preparing("connecting to the other instances");
    options_.world().communicator().barrier("prepare");
    preparing("sharing the weights");
    model_.emplace(std::move(model), options_, request_.optimizer, task_of(request_));
    model_->tell([this](const std::string& text) { tell(events::Notice{text}); });
    model_->on_step([this](std::int64_t step, const StepResult& result) { on_step(step, result); });
    preparing("deciding the plan");
    const auto compiled = model_->compile(*loader_, [this](int done, int total) {
      tell(events::Preparing{fmt::format("measuring block {} of {}", done, total), prepared_ - 1,
                             kPreparations});
    });
    begin_digests();
    tell_of_limits();
    tell(events::Preparing{compiled.is_cached ? "plan cached" : "plan made", kPreparations,
                           kPreparations});
  }

  /// What is not done as it was asked for, and changes nothing but speed or rounding.
  void tell_of_limits() {
    if (request_.precision != Precision::P32_32 && options_.device() == DeviceKind::Cpu) {
      tell(events::Notice{fmt::format(
          "this CPU computes in 32 bits: {} applies to the input{}", name_of(request_.half),
          request_.precision == Precision::P16_16 ? " and to gradients" : "")});
    }
  }

  void train_epoch(std::int64_t epoch) {
    const auto begin = std::chrono::steady_clock::now();
    // After a crash between the last step and what follows it, there is nothing left to show.
    const bool has_steps_left = model_->steps() < epoch * loader_->steps_per_epoch();
    if (has_steps_left) {
      tell(events::EpochBegan{epoch, loader_->size(), request_.epochs, evaluations_from(epoch)});
    }
    for (const auto& iteration : *loader_) {
      const auto result = model_->step(iteration);
      if (result.done_before) continue;
      tell(events::IterationDone{epoch, iteration.number + 1, result.loss, result.metrics});
    }
    train_seconds_ +=
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const auto result = model_->epoch_so_far();
    tell(events::EpochDone{epoch, loader_->size(), result.loss, result.metrics});
  }

  /// How many evaluations follow from this epoch on: `run` evaluates every N epochs and at the end.
  std::int64_t evaluations_from(std::int64_t epoch) const {
    if (!test_loader_) return 0;
    const auto every = request_.eval_every;
    if (every == 0) return 1;
    const bool is_last_extra = request_.epochs % every != 0;
    return request_.epochs / every - (epoch - 1) / every + (is_last_extra ? 1 : 0);
  }

  void on_step(std::int64_t step, const StepResult& result) {
    const auto now = unix_time();
    if (first_step_unix_s_ == 0) {
      first_step_unix_s_ = now;
      time_to_first_step_s_ = process_age();
    }
    last_step_unix_s_ = now;
    if (!digests_ || step % request_.digest_every != 0) return;
    record_digests(step, result.replica_losses);
  }

  void record_digests(std::int64_t step, const std::vector<float>& losses) {
    weights::DigestStep record{.step = step, .losses = losses, .tensors = {}};
    for (auto& [name, digest] : model_->digests()) record.tensors.emplace(name, digest);
    digests_->append(record);
  }

  /// A run that was killed after its last step, and before that was recorded, has it recorded now.
  void record_missed_digests() {
    const auto step = resumed_step().value_or(0);
    if (step == 0 || digests_->last_step() != step - request_.digest_every) return;
    if (step % request_.digest_every == 0) record_digests(step, {});
  }

  void begin_digests() {
    if (request_.digest_every == 0 || !is_first()) return;
    std::filesystem::create_directories(request_.log_dir);
    digests_.emplace(std::filesystem::path(request_.log_dir) / weights::kDigestLogName,
                     weights::DigestLogHeader{
                         .replicas = model_->replicas(),
                         .threads_per_device = model_->threads_per_device(),
                         .facts = {{"model", request_.model.model}, {"dataset", request_.dataset}}},
                     resumed_step());
    record_missed_digests();
  }

  /// After which step this run goes on, if it does.
  std::optional<std::int64_t> resumed_step() {
    const auto step = model_->resumed().step;
    return step > 0 ? std::optional(step) : std::nullopt;
  }

  WeightsKind tested_weights() const {
    return request_.optimizer.average_decay() ? WeightsKind::Average : WeightsKind::Trained;
  }

  void evaluate(std::int64_t epoch) {
    if (!test_loader_) return;
    tell(events::EvaluationBegan{epoch, test_loader_->local_batches()});
    test_ = model_->evaluate(*test_loader_, tested_weights(),
                             [this](std::int64_t done) { tell(events::EvaluationAdvanced{done}); });
    tell(events::EvaluationDone{epoch, test_->loss, test_->metrics});
  }

  /// Where the time of each instance went.
  std::vector<events::PhaseSeconds> seconds_by_instance() {
    static_assert(sizeof(events::PhaseSeconds) == 4 * sizeof(double));
    const auto perf = model_->perf();
    const events::PhaseSeconds mine{.data = perf.data.total,
                                    .compute = perf.compute.total,
                                    .reduce = perf.reduce.total,
                                    .idle = perf.idle.total};
    std::vector<events::PhaseSeconds> all(
        static_cast<std::size_t>(options_.world().num_instances()));
    options_.world().all_gather({&mine, 4, DataType::F64, "time shares"},
                                {all.data(), 4 * std::ssize(all), DataType::F64, "time shares"});
    return all;
  }

  /// The mean over the instances.
  static TimeShares time_shares(const std::vector<events::PhaseSeconds>& instances) {
    events::PhaseSeconds sum;
    for (const auto& seconds : instances) {
      sum.data += seconds.data;
      sum.compute += seconds.compute;
      sum.reduce += seconds.reduce;
      sum.idle += seconds.idle;
    }
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
    summary.train_seconds = train_seconds_;
    summary.samples_per_second =
        train_seconds_ > 0 ? static_cast<double>((summary.optimizer_steps - summary.resumed_at) *
                                                 shape.samples_per_step()) /
                                 train_seconds_
                           : 0;
    summary.time_to_first_step_s = time_to_first_step_s_;
    summary.first_step_unix_s = first_step_unix_s_;
    summary.last_step_unix_s = last_step_unix_s_;
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
      const auto last_epoch = model_->epoch_so_far();  // perhaps an earlier run's
      summary.train_loss = last_epoch.loss;
      summary.train_metrics = last_epoch.metrics;
    }
    if (test_) {
      summary.test_loss = test_->loss;
      summary.test_metrics = test_->metrics;
    }
    summary.weights = model_->digest();
    return summary;
  }

  const TrainRequest& request_;
  events::TrainSink& sink_;
  Options options_;
  std::optional<StopSignals> signals_;  ///< are heeded while it prepares, too
  std::optional<DataLoader> loader_;
  std::optional<EvaluationLoader> test_loader_;
  std::optional<TrainingModel> model_;
  std::optional<weights::DigestLogWriter> digests_;
  int prepared_ = 0;
  double train_seconds_ = 0;
  double time_to_first_step_s_ = 0;
  double first_step_unix_s_ = 0;
  double last_step_unix_s_ = 0;
  std::optional<StepResult> test_;
};

}  // namespace

TrainSummary run_training(const TrainRequest& request, events::TrainSink& sink,
                          const events::Watchers& watchers) {
  return TrainJob(request, sink, watchers).run();
}

}  // namespace lockstep::train

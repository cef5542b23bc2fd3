#include "lockstep/train/api/training_model.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "lockstep/base/error.h"
#include "lockstep/base/log.h"
#include "lockstep/monitor/status/status_publisher.h"
#include "lockstep/nn/model_weights.h"
#include "lockstep/nn/torch_errors.h"
#include "lockstep/train/backends/batch_tensors.h"
#include "lockstep/train/engine/engine.h"
#include "lockstep/train/planner/planner.h"
#include "lockstep/train/recovery/recovery.h"

namespace lockstep {
namespace {

StepResult result_of(double loss, const std::vector<double>& values,
                     const std::vector<Metric>& metrics) {
  StepResult result{.loss = loss,
                    .accuracy = std::numeric_limits<double>::quiet_NaN(),
                    .metrics = {},
                    .replica_losses = {}};
  for (std::size_t i = 0; i < values.size(); ++i) {
    result.metrics.push_back({metrics[i].name, values[i]});
    if (metrics[i].name == "acc") result.accuracy = values[i];
  }
  return result;
}

void add(StepResult& sum, const StepResult& step) {
  sum.loss += step.loss;
  sum.accuracy += step.accuracy;
  for (std::size_t i = 0; i < step.metrics.size(); ++i)
    sum.metrics[i].value += step.metrics[i].value;
  for (std::size_t i = 0; i < step.replica_losses.size(); ++i) {
    sum.replica_losses[i] += step.replica_losses[i];
  }
}

/// A loader that is made from other options would mix the samples of several steps.
void check_fits(const DataLoader& loader, const Options& options, const train::JobLayout& layout) {
  const auto& shape = loader.shape();
  const auto check = [](const char* what, std::int64_t wanted, std::int64_t found) {
    if (wanted == found) return;
    throw Error(ErrorKind::Options,
                fmt::format("TrainingModel::step: expected a loader for {} {}, found one for {}",
                            wanted, what, found),
                "make loader and model from the same options");
  };
  check("replicas", layout.replicas, shape.replicas);
  check("micro-batches of a step (gradient_accumulation)", options.gradient_accumulation(),
        shape.gradient_accumulation);
  check("steps of an iteration (device_iterations)", options.device_iterations(),
        shape.device_iterations);
  check("devices per replica", layout.stages, loader.layout().stages);
  check("micro-batches at the same time (pipeline)", train::loader_buffers(options, layout),
        loader.buffers());
}

/// Publishes a status page of this process. If no launcher has started the process, only its
/// options say which replicas and devices it has.
std::unique_ptr<monitor::StatusPublisher> publish_status(const Options& options,
                                                         const train::JobLayout& layout) {
  auto identity = options.world().identity();
  identity.num_replicas = layout.replicas;
  identity.local_replicas = layout.local;
  identity.devices_per_replica = layout.stages;
  identity.threads_per_device = layout.threads_per_device;
  identity.device_ids = layout.ids_by_stage();
  const auto kind =
      options.device() == DeviceKind::Cuda ? monitor::DeviceKind::Cuda : monitor::DeviceKind::Cpu;
  return std::make_unique<monitor::StatusPublisher>(identity,
                                                    topology::Environment::of_this_process(), kind);
}

/// Collects the steps that the output mode selects.
class Collector {
 public:
  explicit Collector(const Options& options) : options_(options) {}

  void take(StepResult step, std::int64_t number) {
    const auto mode = options_.output();
    if (mode == OutputMode::Sum && !steps_.empty()) return add(steps_.front(), step);
    const auto every = mode == OutputMode::Final    ? options_.device_iterations()
                       : mode == OutputMode::EveryN ? options_.output_every()
                                                    : 1;
    last_ = step;
    if ((number + 1) % every == 0) steps_.push_back(std::move(step));
  }

  IterationResult result() && {
    IterationResult result;
    static_cast<StepResult&>(result) = steps_.empty() ? last_ : steps_.back();
    result.steps = std::move(steps_);
    return result;
  }

 private:
  const Options& options_;
  std::vector<StepResult> steps_;
  StepResult last_;  ///< for EveryN, if there were fewer steps
};

}  // namespace

struct TrainingModel::Impl {
  Options options;
  std::unique_ptr<nn::Model> model;  ///< moved into the engine
  Optimizer optimizer;
  Task task;
  std::function<void(const std::string&)> tell = [](const std::string& text) { log_warning(text); };
  std::function<void(std::int64_t, const StepResult&)> on_step = [](auto&&...) {};
  std::unique_ptr<monitor::StatusPublisher> own_status{};  ///< if the program has none
  std::unique_ptr<train::Engine> made{};
  std::optional<plan::Plan> plan{};
  CompileResult compiled{};
  events::PhaseSeconds told{};  ///< times that the status sink has received
  std::unique_ptr<train::Recovery> recovery{};

  void tell_of_steps(const DataLoader::Iteration& iteration, std::int64_t steps,
                     const StepResult& result);

  train::Engine& engine(const DataLoader* loader = nullptr) {
    if (!made) make(loader);
    return *made;
  }

  /// Publishes a status page for `lockstep monitor`, unless the program has done so.
  void publish(const train::JobLayout& layout) {
    if (options.watchers().status == nullptr && options.world().is_this_process()) {
      own_status = publish_status(options, layout);
      if (!own_status->problem().empty()) {
        tell("'lockstep monitor' will not show this training: " + own_status->problem());
      }
      auto watchers = options.watchers();
      watchers.status = own_status.get();
      options.watch(watchers);
    }
    options.watchers().enter(events::Phase::Preparing);
  }

  void make(const DataLoader* loader) {
    if (!model) throw Error(ErrorKind::Options, "TrainingModel: making it ready has failed before");
    const auto layout = train::lay_out(options);
    publish(layout);
    train::EngineSetup setup{.options = options,
                             .layout = layout,
                             .model = std::move(model),
                             .optimizer = optimizer,
                             .task = task,
                             .tell = [this](const std::string& text) { tell(text); }};
    made = nn::with_torch_errors("TrainingModel",
                                 [&] { return std::make_unique<train::Engine>(std::move(setup)); });
    recovery->begin(*made, made->layout(), optimizer, loader,
                    [this](const std::string& text) { tell(text); });
  }

  void compile(const DataLoader& loader, const std::function<void(int, int)>& on_block) {
    if (plan) return;
    options.watchers().enter(events::Phase::Preparing);
    auto& engine = this->engine(&loader);
    check_fits(loader, options, engine.layout());
    recovery->take_loader(loader);
    auto found = train::agree_on_plan(subject(loader, on_block));
    compiled = {found.is_cached, std::move(found.key)};
    std::int64_t kept = 0;
    for (const auto& stage : found.plan.stages) kept += stage.kept_bytes;
    engine.prepare({.split = plan::split_of(found.plan), .loader = loader, .kept_bytes = kept});
    plan = std::move(found.plan);
    plan->available_bytes += plan->shared.total;  // it is allocated by now
    if (options.world().instance() != 0) return;
    for (const auto& warning : plan::warnings_of(*plan)) tell(warning);
  }

  std::pair<StepResult, ConfusionMatrix> evaluate(
      EvaluationLoader& loader, const train::EvaluationTask& wanted,
      const std::function<void(std::int64_t)>& on_batch) {
    auto& engine = this->engine();
    options.watchers().enter(events::Phase::Evaluating);
    auto means = engine.evaluate(loader, wanted, [&](std::int64_t done) {
      recovery->during_evaluation();
      on_batch(done);
    });
    auto result = result_of(means.loss, means.metrics, engine.metrics());
    recovery->after_evaluation(result.loss, result.metrics);
    return {std::move(result), std::move(means.confusion)};
  }

  train::PlanSubject subject(const DataLoader& loader,
                             const std::function<void(int, int)>& on_block) {
    return {.name = "model",
            .options = options,
            .optimizer = optimizer,
            .num_metrics = task.metrics.size(),
            .carriers = train::carriers_of(options, loader),
            .batch_size = loader.shape().batch_size,
            .input =
                [&loader, this](std::int64_t samples) {
                  return train::model_input(loader.tensors().example(loader.fields(), samples),
                                            task);
                },
            .with_model = [this](const auto& measure) { engine().with_replica(measure); },
            .on_block = on_block,
            .tell = [this](const std::string& text) { tell(text); },
            .heartbeat = [this] { options.world().communicator().heartbeat("measuring blocks"); }};
  }
};

TrainingModel::TrainingModel(std::unique_ptr<nn::Model> model, const Options& options,
                             Optimizer optimizer, Task task)
    : impl_(std::make_unique<Impl>(Impl{.options = options,
                                        .model = std::move(model),
                                        .optimizer = std::move(optimizer),
                                        .task = std::move(task)})) {
  options.freeze("TrainingModel");
  options.loop_position()->add_model();
  impl_->recovery = std::make_unique<train::Recovery>(impl_->options);
  if (!impl_->model) {
    throw Error(ErrorKind::Options, "TrainingModel: expected a model, found a null pointer");
  }
}

TrainingModel::TrainingModel(TrainingModel&&) noexcept = default;
TrainingModel::~TrainingModel() = default;

void TrainingModel::tell(std::function<void(const std::string&)> listener) {
  impl_->tell = std::move(listener);
}

void TrainingModel::on_step(std::function<void(std::int64_t, const StepResult&)> listener) {
  impl_->on_step = std::move(listener);
}

void TrainingModel::compile() {
  impl_->engine();
}

CompileResult TrainingModel::compile(DataLoader& loader,
                                     const std::function<void(int, int)>& on_block) {
  impl_->compile(loader, on_block);
  return impl_->compiled;
}

const plan::Plan& TrainingModel::plan() const {
  if (impl_->plan) return *impl_->plan;
  throw Error(ErrorKind::Options, "TrainingModel::plan: nothing is decided yet",
              "call compile(loader) first");
}

IterationResult TrainingModel::step(const DataLoader::Iteration& iteration) {
  auto& loader = *iteration.loader;
  auto& engine = impl_->engine(&loader);
  auto& recovery = *impl_->recovery;
  check_fits(loader, impl_->options, engine.layout());
  impl_->compile(loader, [](int, int) {});
  const auto steps = impl_->options.device_iterations();
  const auto done = recovery.replay().walk(steps, iteration.epoch);
  if (done == steps) {
    IterationResult result{epoch_so_far(), {}};
    result.done_before = true;
    return result;
  }
  impl_->options.watchers().enter(events::Phase::Training);
  engine.begin(iteration, done);
  Collector collector(impl_->options);
  for (auto i = done; i < steps;) {
    const auto outputs = engine.step(recovery.before_step(iteration, i));
    auto number = engine.progress().steps - std::ssize(outputs);
    for (const auto& output : outputs) {
      auto result = result_of(output.loss, output.metrics, engine.metrics());
      result.replica_losses = output.replica_losses;
      result.skipped = output.skipped;
      impl_->on_step(++number, result);
      collector.take(std::move(result), i++);
    }
    recovery.after_step(loader);
  }
  auto result = std::move(collector).result();
  impl_->tell_of_steps(iteration, steps - done, result);
  return result;
}

/// Reports the samples and times of this instance, and the results of the job.
void TrainingModel::Impl::tell_of_steps(const DataLoader::Iteration& iteration, std::int64_t steps,
                                        const StepResult& result) {
  auto* const status = options.watchers().status;
  if (status == nullptr) return;
  const auto& loader = *iteration.loader;
  const auto& shape = loader.shape();
  const auto local = static_cast<std::int64_t>(made->layout().local.count);
  const auto now = made->perf().seconds();
  status->on({.epoch = iteration.epoch + 1,
              .step = (iteration.number + 1) * shape.device_iterations,
              .steps_of_epoch = loader.steps_per_epoch(),
              .samples = steps * shape.batch_size * shape.gradient_accumulation * local,
              .loss = result.loss,
              .accuracy = result.accuracy,
              .seconds = now - told});
  told = now;
}

StepResult TrainingModel::epoch_so_far() {
  auto& engine = impl_->engine();
  const auto& progress = engine.progress();
  const auto steps = static_cast<double>(std::max<std::int64_t>(1, progress.epoch_steps));
  std::vector<double> metrics;
  for (std::size_t i = 0; i < engine.metrics().size(); ++i) {
    metrics.push_back(progress.epoch_metrics[i] / steps);
  }
  return result_of(progress.epoch_loss / steps, metrics, engine.metrics());
}

EpochRange TrainingModel::epochs(int count) {
  return {impl_.get(), count};
}

EpochRange::Iterator EpochRange::begin() const {
  model_->engine();  // begins the recovery
  return {model_, model_->recovery->replay().begin_loop(count_), count_};
}

EpochRange::Iterator& EpochRange::Iterator::operator++() {
  model_->engine();
  model_->recovery->finish_epoch(epoch_);
  model_->recovery->replay().begin_epoch(++epoch_);
  return *this;
}

ResumeResult TrainingModel::resumed() {
  impl_->engine();
  return {impl_->recovery->replay().first_step(), impl_->recovery->checkpoint_path()};
}

bool TrainingModel::checkpoint() {
  impl_->options.watchers().enter(events::Phase::Saving);
  impl_->engine();
  return impl_->recovery->take_checkpoint("asked");
}

void TrainingModel::remember(const checkpoint::EpochEntry& entry) {
  impl_->recovery->remember(entry);
}

std::vector<checkpoint::EpochEntry> TrainingModel::resumed_history() const {
  return impl_->recovery->resumed_history();
}

CheckpointCost TrainingModel::checkpoint_cost() const {
  return impl_->made ? impl_->recovery->checkpoint_cost() : CheckpointCost{};
}

StepResult TrainingModel::evaluate(EvaluationLoader& loader, WeightsKind kind,
                                   const std::function<void(std::int64_t)>& on_batch) {
  return impl_->evaluate(loader, {.weights = kind}, on_batch).first;
}

Evaluation TrainingModel::evaluate_classes(EvaluationLoader& loader, const std::string& class_field,
                                           WeightsKind kind,
                                           const std::function<void(std::int64_t)>& on_batch) {
  if (class_field.empty()) {
    throw Error(ErrorKind::Options,
                "TrainingModel::evaluate_classes: expected the name of a field, found none",
                "name the field that holds the class of each sample");
  }
  auto [result, confusion] =
      impl_->evaluate(loader, {.weights = kind, .class_field = class_field}, on_batch);
  const auto samples = confusion.samples();
  const auto accuracy =
      100 * static_cast<double>(confusion.correct()) / static_cast<double>(samples);
  return {.samples = samples,
          .loss = result.loss,
          .accuracy = accuracy,
          .metrics = std::move(result.metrics),
          .confusion = std::move(confusion)};
}

at::Tensor TrainingModel::predict(const at::Tensor& input, WeightsKind kind) {
  return impl_->engine().predict(input, kind);
}

void TrainingModel::save(const std::filesystem::path& path, WeightsKind kind) {
  auto& engine = impl_->engine();  // all instances create it together
  impl_->options.watchers().enter(events::Phase::Saving);
  if (impl_->options.world().instance() == 0) {
    engine.with_model(kind, [&](nn::Model& model) { nn::save_weights(model, path); });
  }
  impl_->options.world().communicator().barrier("save");
}

void TrainingModel::load(const std::filesystem::path& path) {
  auto& engine = impl_->engine();
  auto& replay = impl_->recovery->replay();
  if (!replay.walk_past_load()) return;
  impl_->recovery->before_load();
  engine.set_model(
      [&](nn::Model& model) {
        if (impl_->options.world().instance() == 0) nn::load_weights(model, path);
      },
      replay.loads());
}

std::string TrainingModel::digest(WeightsKind kind) {
  std::string digest;
  impl_->engine().with_model(kind, [&](nn::Model& model) { digest = nn::digest_of(model); });
  return digest;
}

std::vector<std::pair<std::string, std::string>> TrainingModel::digests() {
  std::vector<std::pair<std::string, std::string>> digests;
  impl_->engine().with_model(WeightsKind::Trained,
                             [&](nn::Model& model) { digests = nn::digests_of(model); });
  return digests;
}

PerfCounters TrainingModel::perf() const {
  return impl_->made ? impl_->made->perf() : PerfCounters{};
}

void TrainingModel::reset_perf() {
  if (!impl_->made) return;
  impl_->made->reset_perf();
  impl_->told = {};
}

std::int64_t TrainingModel::steps() {
  return impl_->engine().progress().steps;
}

int TrainingModel::replicas() {
  return impl_->engine().layout().replicas;
}

int TrainingModel::threads_per_device() {
  return impl_->engine().layout().threads_per_device;
}

MemoryUse TrainingModel::memory() {
  return impl_->engine().memory();
}

}  // namespace lockstep

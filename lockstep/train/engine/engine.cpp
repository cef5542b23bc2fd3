#include "lockstep/train/engine/engine.h"

#include <fmt/format.h>
#include <torch/types.h>

#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/fnv.h"
#include "lockstep/nn/torch_errors.h"
#include "lockstep/train/recovery/resume_compatibility.h"

namespace lockstep::train {
namespace {

EngineSetup checked(EngineSetup setup) {
  if (setup.task.metrics.size() > kMostMetrics) {
    throw Error(ErrorKind::Options, fmt::format("Task: expected at most {} metrics, found {}",
                                                kMostMetrics, setup.task.metrics.size()));
  }
  return setup;
}

UpdateRules rules_of(const EngineSetup& setup) {
  const auto micro_batches = setup.options.gradient_accumulation() * setup.layout.replicas;
  return update_rules(setup.optimizer, setup.layout.replicas,
                      setup.options.reduction() == Reduction::Mean ? micro_batches : 1,
                      setup.has_loss_scaling());
}

/// Hashes of what must be the same on every instance.
struct Agreement {
  std::int64_t model;
  std::int64_t options;
  std::int64_t optimizer;
};

std::int64_t hash_of(const std::vector<nn::Slot>& slots) {
  Fnv hash;
  for (const auto& slot : slots) {
    for (const auto& name : slot.names) hash.add(name).add(0);
    hash.add(static_cast<std::uint64_t>(slot.tensor().scalar_type()));
    hash.add(slot.tensor().requires_grad() ? 1 : 0);
    for (const auto extent : slot.tensor().sizes()) hash.add(static_cast<std::uint64_t>(extent));
  }
  return static_cast<std::int64_t>(hash.value());
}

std::int64_t hash_of(const Options& options) {
  const auto& schedule = options.schedule();
  Fnv hash;
  hash.add(fmt::format("{} {} {} {} {} {}", options.gradient_accumulation(),
                       options.device_iterations(), options.seed(), options.loss_scale(),
                       name_of(options.reduction()), name_of(options.precision())));
  hash.add(fmt::format("{} {} {} {} {} {} {}", name_of(options.half()), options.epochs(),
                       name_of(schedule.kind), schedule.warmup_epochs, schedule.step_epochs,
                       schedule.step_factor, schedule.final_factor));
  return static_cast<std::int64_t>(hash.value());
}

std::int64_t hash_of(const Optimizer& optimizer, const WeightLayout& weights) {
  Fnv hash;
  const auto& adam = optimizer.adam();
  hash.add(fmt::format("{} {} {} {} {} {}", optimizer.name(), optimizer.sgd().momentum,
                       optimizer.sgd().nesterov, adam.beta1, adam.beta2, adam.epsilon));
  hash.add(fmt::format("{} {}", optimizer.clip_norm().value_or(0),
                       optimizer.average_decay().value_or(0)));
  for (const auto& parameter : weights.parameters) {
    hash.add(fmt::format("{} {}", parameter.settings.lr, parameter.settings.weight_decay));
  }
  return static_cast<std::int64_t>(hash.value());
}

/// Checks that all instances train the same model with the same options and the same optimizer.
/// Returns a fingerprint of these and of the number of replicas.
///
/// Errors: `Options`, on every instance, if they differ.
std::uint64_t agree_on_training(comm::Communicator& communicator,
                                const std::vector<nn::Slot>& slots, const EngineSetup& setup,
                                const WeightLayout& weights) {
  constexpr std::int64_t kWidth = sizeof(Agreement) / sizeof(std::int64_t);
  const Agreement mine{hash_of(slots), hash_of(setup.options), hash_of(setup.optimizer, weights)};
  std::vector<Agreement> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather({&mine, kWidth, DataType::I64, "agreement"},
                          {all.data(), kWidth * communicator.size(), DataType::I64, "agreement"});
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    const auto check = [&](std::int64_t Agreement::*part, const char* what) {
      if (all[rank].*part == all.front().*part) return;
      throw Error(ErrorKind::Options,
                  fmt::format("TrainingModel: expected the same {} on every instance, found "
                              "another on instance {} than on instance 0",
                              what, communicator.instances()[rank]),
                  "do not derive it from the instance number, the time or the machine");
    };
    check(&Agreement::model, "model");
    check(&Agreement::options, "options");
    check(&Agreement::optimizer, "optimizer");
  }
  Fnv fingerprint;
  const auto replicas = std::int64_t{setup.layout.replicas};
  for (const auto hash : {mine.model, mine.options, mine.optimizer, replicas}) {
    fingerprint.add(static_cast<std::uint64_t>(hash));
  }
  return fingerprint.value();
}

SharedState open_state(const EngineSetup& setup) {
  auto& communicator = setup.options.world().communicator();
  const auto slots = nn::slots_of(setup.model->tensors());
  auto weights = lay_out_weights(slots, setup.optimizer);
  const auto fingerprint = agree_on_training(communicator, slots, setup, weights);
  return {communicator, std::move(weights),
          StateSizes{.num_states = setup.optimizer.num_states(),
                     .has_average = setup.optimizer.average_decay().has_value(),
                     .replicas = setup.layout.replicas,
                     .local_leaves = setup.layout.local.count,
                     .metrics = setup.task.metrics.size()},
          fingerprint};
}

std::vector<double> metric_scales(const Task& task) {
  std::vector<double> scales;
  for (const auto& metric : task.metrics) scales.push_back(metric.scale);
  return scales;
}

std::function<void(const std::string&)> tell_on_first(const EngineSetup& setup) {
  if (setup.options.world().communicator().rank() == 0) return setup.tell;
  return [](const std::string&) {};
}

}  // namespace

Engine::Engine(EngineSetup setup)
    : setup_(checked(std::move(setup))),
      watched_(communicator(), setup_.options.watchers().status),
      rules_(rules_of(setup_)),
      state_(open_state(setup_)),
      original_(-1, std::move(setup_.model), state_.weights(), state_.shape()),
      copy_(state_,
            StateTensors(state_.weights(), state_.shape(), original_.slots(), setup_.optimizer)),
      account_({.weights = state_.weights(),
                .totals = state_.totals(),
                .rules = rules_.step_rules,
                .metric_scales = metric_scales(setup_.task),
                .tell = tell_on_first(setup_)}),
      requests_(communicator().rank()),
      backend_(make_backend({.setup = setup_,
                             .rules = rules_,
                             .state = state_,
                             .copy = copy_,
                             .account = account_,
                             .requests = requests_,
                             .original = original_,
                             .perf = perf_})) {
  if (!is_recovered()) publish_first_version({});
  load_state();
}

Engine::~Engine() {
  const auto* state = state_.current();
  try {
    state = backend_->copy_state();
  } catch (const std::exception&) {
    // The program gets the weights that were stored last.
  }
  attach(WeightsKind::Trained, state);
  original_.detach();
}

std::vector<StepOutput> Engine::step(const StepPosition& position) {
  std::vector<StepOutput> outputs;
  guarded([&] {
    account_.begin(position);
    outputs = backend_->run();
  });
  return outputs;
}

EvaluationMeans Engine::evaluate(EvaluationLoader& loader, const EvaluationTask& task,
                                 const std::function<void(std::int64_t)>& on_batch) {
  weights_in(state_.shape(), state_.current(), task.weights);  // refuses a missing average
  Evaluator evaluator(loader, task, metric_scales(setup_.task), on_batch);
  EvaluationMeans means;
  guarded([&] {
    backend_->evaluate(evaluator);
    means = evaluator.finish(communicator());
  });
  return means;
}

at::Tensor Engine::predict(const at::Tensor& input, WeightsKind weights) {
  weights_in(state_.shape(), state_.current(), weights);  // refuses a missing average
  return backend_->predict(input, weights);
}

/// Publishes the weights of the model of instance 0 as the weights of all instances. Frozen
/// parameters are written before the version is committed. A crash in between repeats both.
void Engine::publish_first_version(const Progress& progress) {
  const auto& weights = state_.weights();
  const auto& shape = state_.shape();
  state_.publish([&](std::byte* state, float* frozen) {
    const torch::NoGradGuard no_grad;
    const auto copy = [&](const PlacedTensor& placed, float* to) {
      view_of(placed, to).copy_(original_.slots()[placed.slot].tensor());
    };
    std::memset(state, 0, shape.bytes());
    auto* const all = shape.weights(state).data();
    for (const auto& parameter : weights.frozen) copy(parameter, frozen);
    for (const auto& parameter : weights.parameters) copy(parameter, all);
    for (const auto& buffer : weights.buffers) copy(buffer, all);
    original_.copy_integers(shape.integers(state));
    if (shape.has_average()) {
      std::memcpy(shape.average(state).data(), all, shape.weights(state).size_bytes());
    }
    shape.progress(state) = progress;
    shape.progress(state).loss_scale = setup_.has_loss_scaling() ? setup_.options.loss_scale() : 1;
  });
}

void Engine::load_state() {
  attach(WeightsKind::Trained, state_.current());
  if (!state_.weights().frozen.empty()) original_.attach_frozen(state_.frozen());
  backend_->load_state();
}

void Engine::with_model(WeightsKind weights, const std::function<void(nn::Model&)>& look) {
  guarded([&] {
    attach(weights, backend_->read_state());
    look(original_.model());
  });
}

void Engine::set_model(const std::function<void(nn::Model&)>& change, std::int64_t loads) {
  guarded([&] {
    backend_->store_state();
    const auto steps = progress().steps_before_load + progress().steps;
    attach(WeightsKind::Trained, state_.current());
    original_.detach();
    change(original_.model());
    communicator().barrier("set weights");  // no instance reads the old weights any more
    publish_first_version({.loads = loads, .steps_before_load = steps});
    load_state();
  });
}

void Engine::finish_epoch(std::int64_t epoch) {
  backend_->store_state();  // an epoch is only finished if its last step survives a crash
  state_.keep_finished_epochs(epoch);
}

/// `from` is needed on instance 0 only.
void Engine::restore(const checkpoint::Checkpoint* from) {
  guarded([&] {
    communicator().barrier("restore");  // no instance reads the old state any more
    state_.publish([&](std::byte* state, float* frozen) {
      state_.keep_finished_epochs(copy_.tensors().read(*from, state, frozen));
      state_.keep_loader_print(train::loader_print(from->manifest().options));
    });
    load_state();
  });
}

/// Reports an error of `action` to the other instances, so that they do not wait until they time
/// out.
void Engine::guarded(const std::function<void()>& action) {
  nn::with_torch_errors("train", action,
                        [this](const Error& error) { communicator().report_failure(error); });
}

}  // namespace lockstep::train

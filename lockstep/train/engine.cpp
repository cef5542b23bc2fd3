#include "lockstep/train/engine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/types.h>

#include <cmath>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/fnv.h"
#include "lockstep/nn/block_sharing.h"
#include "lockstep/nn/compute_threads.h"
#include "lockstep/nn/random/random_scope.h"
#include "lockstep/nn/torch_errors.h"

namespace lockstep::train {
namespace {

std::vector<nn::Slot> slots_of(const nn::Model& model) {
  return nn::slots_of(model.tensors());
}

/// Hashes of what has to be the same on every instance.
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

/// Throws on every instance where they were not started alike.
void check_agreement(comm::Communicator& communicator, const EngineSetup& setup,
                     const WeightLayout& weights) {
  constexpr std::int64_t kWidth = sizeof(Agreement) / sizeof(std::int64_t);
  const Agreement mine{hash_of(slots_of(*setup.model)), hash_of(setup.options),
                       hash_of(setup.optimizer, weights)};
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
                  "let nothing of it depend on the instance, the time or the machine");
    };
    check(&Agreement::model, "model");
    check(&Agreement::options, "options");
    check(&Agreement::optimizer, "optimizer");
  }
}

DataType leaf_type_of(const Options& options) {
  return gradient_type(options.precision(), options.half());
}

UpdateRules rules_of(const EngineSetup& setup) {
  const auto micro_batches = setup.options.gradient_accumulation() * setup.layout.replicas;
  return {.optimizer = setup.optimizer,
          .replicas = setup.layout.replicas,
          .divisor = setup.options.reduction() == Reduction::Mean ? micro_batches : 1,
          .has_loss_scaling =
              setup.options.precision() == Precision::P16_16 && setup.options.half() == Half::F16};
}

EngineSetup checked(EngineSetup setup) {
  if (setup.task.metrics.size() > kMostMetrics) {
    throw Error(ErrorKind::Options, fmt::format("Task: expected at most {} metrics, found {}",
                                                kMostMetrics, setup.task.metrics.size()));
  }
  return setup;
}

}  // namespace

Engine::Engine(EngineSetup setup)
    : setup_(checked(std::move(setup))),
      communicator_(setup_.options.world().communicator()),
      weights_(lay_out_weights(slots_of(*setup_.model), setup_.optimizer)),
      shape_(weights_, setup_.optimizer.num_states(), setup_.optimizer.average_decay().has_value()),
      totals_(weights_, setup_.layout.replicas, setup_.task.metrics.size()),
      update_(rules_of(setup_), weights_, shape_, totals_),
      updates_((check_agreement(communicator_, setup_, weights_), communicator_),
               update_shape(weights_, shape_, totals_, setup_.layout.local.count), "weights"),
      threads_(setup_.layout.num_devices,
               [threads = setup_.layout.threads_per_device] { nn::use_compute_threads(threads); }) {
  make_replicas();
  write_first_state();
  share_frozen();
}

/// Whoever handed the model over keeps it, with the weights that it has now.
Engine::~Engine() {
  original_->attach(weights(Which::Weights), updates_.state());
  original_->detach();
}

/// All replicas are clones: the model that was handed over may be tied in ways, and hold gradients,
/// that a clone does not, and no replica may differ from another.
void Engine::make_replicas() {
  const auto& local = setup_.layout.local;
  replicas_.reserve(static_cast<std::size_t>(local.count));
  for (int i = 0; i < local.count; ++i) {
    replicas_.emplace_back(local.first + i, setup_.model->clone(), weights_, shape_);
    replicas_.back().prepare_to_learn();
  }
  original_.emplace(-1, std::move(setup_.model), weights_, shape_);
}

/// Which blocks share a parameter, and must not be cut apart, is asked of the model itself: bits
/// depend on it.
void Engine::spread(const plan::StageSplit& split, std::int64_t most_batches) {
  PipelineSettings settings{.shape = {.schedule = setup_.options.pipeline(),
                                      .stages = layout().stages,
                                      .micro_batches = setup_.options.gradient_accumulation()},
                            .recompute = setup_.options.recompute(),
                            .split = split};
  const auto blocks = nn::list_blocks(original_->model());
  for (int block = 0; block < std::ssize(blocks.blocks); ++block) {
    settings.may_be_cut.push_back(plan::may_begin_stage(blocks, block));
  }
  pipelines_.reserve(replicas_.size());
  for (auto& replica : replicas_) {
    replica.cut(split);
    pipelines_.emplace_back(replica.model(), setup_.task, settings);
  }
  flow_.emplace(plan::FlowShape{.schedule = settings.shape.schedule,
                                .micro_batches = settings.shape.micro_batches,
                                .device_of = layout().device_of,
                                .side_by_side = layout().num_first_devices(),
                                .most_batches = most_batches});
}

void Engine::with_replica(const std::function<void(nn::Model&)>& measure) {
  guarded([&] {
    threads_.run([&](int device) {
      if (device == 0) measure(replicas_.front().model());
    });
  });
}

/// The weights of instance 0 are everybody's.
void Engine::write_first_state() {
  const auto& slots = original_->slots();
  updates_.initialize([&](std::byte* state) {
    const torch::NoGradGuard no_grad;
    std::memset(state, 0, shape_.bytes());
    auto* all = shape_.weights(state).data();
    for (const auto& parameter : weights_.parameters) {
      view_of(parameter, all).copy_(slots[parameter.slot].tensor());
    }
    for (const auto& buffer : weights_.buffers) {
      view_of(buffer, all).copy_(slots[buffer.slot].tensor());
    }
    original_->copy_integers(shape_.integers(state));
    if (setup_.optimizer.average_decay()) {
      std::memcpy(shape_.average(state).data(), all, shape_.weights(state).size_bytes());
    }
    shape_.progress(state) = {.loss_scale = has_loss_scaling() ? setup_.options.loss_scale() : 1};
  });
  for (auto& replica : replicas_) replica.attach(weights(Which::Weights), updates_.state());
  original_->attach(weights(Which::Weights), updates_.state());
}

/// What is not learned is there once for the host, too.
void Engine::share_frozen() {
  if (weights_.frozen.empty()) return;
  if (frozen_.data() == nullptr) {
    frozen_ = communicator_.allocate(static_cast<std::size_t>(weights_.num_frozen) * sizeof(float),
                                     "frozen weights");
  }
  auto* memory = reinterpret_cast<float*>(frozen_.data());
  if (communicator_.rank() == 0) {
    const torch::NoGradGuard no_grad;
    for (const auto& parameter : weights_.frozen) {
      view_of(parameter, memory).copy_(original_->slots()[parameter.slot].tensor());
    }
  }
  communicator_.barrier("frozen weights");
  for (auto& replica : replicas_) replica.attach_frozen(memory);
  original_->attach_frozen(memory);
}

bool Engine::has_loss_scaling() const noexcept {
  return leaf_type_of(setup_.options) == DataType::F16;
}

const float* Engine::weights(Which which) const {
  if (which == Which::Weights) return shape_.weights(updates_.state()).data();
  if (setup_.optimizer.average_decay()) return shape_.average(updates_.state()).data();
  throw Error(ErrorKind::Options, "TrainingModel: no average of the weights is kept",
              "AdamW({...}).average_weights(0.999)");
}

MemoryUse Engine::memory() const noexcept {
  const auto bytes = [](std::int64_t floats) {
    return floats * static_cast<std::int64_t>(sizeof(float));
  };
  const auto kept = setup_.optimizer.num_states() + (setup_.optimizer.average_decay() ? 1 : 0);
  return {
      .weights = bytes(weights_.num_elements + weights_.num_frozen),
      .optimizer = bytes(weights_.num_parameters * kept),
      .shared = static_cast<std::int64_t>(updates_.memory_bytes()) + bytes(weights_.num_frozen)};
}

StepOutput Engine::step(BatchSource& source, const DataLoader& loader, const StepPlace& place) {
  StepOutput output;
  guarded([&] { output = run_step(source, loader, place); });
  return output;
}

StepOutput Engine::run_step(BatchSource& source, const DataLoader& loader, const StepPlace& place) {
  Stopwatch whole;
  const StepInput input{source, loader.tensors(), progress()};
  std::vector<DeviceTimes> devices(static_cast<std::size_t>(threads_.count()));
  for (auto& device : devices) device.stages.resize(static_cast<std::size_t>(layout().stages));
  flow_->restart();
  stages_handed_in_ = 0;
  threads_.run(
      [&](int device) { run_device(device, input, devices[static_cast<std::size_t>(device)]); },
      [&] {
        flow_->give_up();
        source.give_up();
      });

  Stopwatch watch;
  double waited = 0;
  const RunLength length{loader.steps_per_epoch(), setup_.options.epochs()};
  auto step = update_.step(factor(setup_.options.schedule(), length, input.progress.steps),
                           [&](Progress& next, bool skipped, std::byte* state) {
                             add_progress(next, skipped, place, loader.shape());
                             next_integers(skipped, state);
                           });
  step.check = [&](std::span<const float> totals) {
    waited = watch.lap();
    check_totals(totals, input.progress);
  };
  updates_.step(step);
  auto output = output_of(updates_.totals(), loader.shape());
  output.skipped = progress().updates == input.progress.updates;
  check_skipped(output, input.progress);
  if (std::isfinite(output.loss)) last_losses_ = output.replica_losses;
  record(devices, waited, watch.lap(), whole.lap());
  return output;
}

/// Loss scaling that cannot go lower has found no way to keep gradients finite.
void Engine::check_skipped(const StepOutput& output, const Progress& before) const {
  if (!output.skipped || before.loss_scale > 1) return;
  throw Error(ErrorKind::Diverged,
              fmt::format("train: gradients are not finite at step {}, with a loss scale of 1; the "
                          "losses were {:.6g}",
                          before.steps + 1, fmt::join(output.replica_losses, ", ")),
              "--half bf16, a lower learning rate, or gradient clipping");
}

void Engine::run_device(int device, const StepInput& input, DeviceTimes& times) {
  while (const auto task = flow_->next(device)) {
    const auto number = replicas_[static_cast<std::size_t>(task->replica)].number();
    const auto where = fmt::format("train: replica {}, step {}", number, input.progress.steps + 1);
    nn::with_torch_errors(where, [&] { run_task(*task, input, times); });
    flow_->done(*task);
    communicator_.heartbeat("computing");
  }
}

void Engine::run_task(const plan::FlowTask& task, const StepInput& input, DeviceTimes& times) {
  Stopwatch watch;
  const auto replica = static_cast<std::size_t>(task.replica);
  auto& stage = times.stages[static_cast<std::size_t>(task.stage)];
  const auto computed = [&](Latency& latency, double waited = 0) {
    const auto seconds = watch.lap() - waited;
    latency.add(seconds);
    times.compute += seconds;
    times.data += waited;
  };
  switch (task.kind) {
    case plan::FlowTask::Kind::Forward: {
      const auto waited = task.stage == 0 ? enter(task, input) : 0;
      pipelines_[replica].forward(task.stage, task.micro_batch);
      return computed(stage.forward, waited);
    }
    case plan::FlowTask::Kind::Backward:
      pipelines_[replica].backward(task.stage, task.micro_batch);
      return computed(stage.backward);
    case plan::FlowTask::Kind::HandIn:
      hand_in(task, input);
      times.reduce += watch.lap();
      return;
  }
}

/// With its first micro-batch a replica takes the current weights. Returns for how long it waited
/// for data.
double Engine::enter(const plan::FlowTask& task, const StepInput& input) {
  auto& replica = replicas_[static_cast<std::size_t>(task.replica)];
  auto& pipeline = pipelines_[static_cast<std::size_t>(task.replica)];
  if (task.micro_batch == 0) {
    replica.attach(weights(Which::Weights), updates_.state());
    pipeline.begin({.seed = setup_.options.seed(),
                    .step = static_cast<std::uint64_t>(input.progress.steps),
                    .replica = static_cast<std::uint32_t>(replica.number()),
                    .loss_scale = input.progress.loss_scale});
  }
  Stopwatch watch;
  auto batch = input.source.next(replica.number());
  const auto waited = watch.lap();
  if (!batch) throw Error(ErrorKind::Bug, "train: the loader's epoch is too short");
  auto fields = input.tensors(*batch);
  pipeline.enter(task.micro_batch, std::move(*batch), std::move(fields));
  return waited;
}

/// The leaf is taken when the last of the replica's stages has written its part.
void Engine::hand_in(const plan::FlowTask& task, const StepInput& input) {
  auto& replica = replicas_[static_cast<std::size_t>(task.replica)];
  const auto count = static_cast<std::size_t>(weights_.num_elements) + totals_.count();
  const std::span leaf(static_cast<float*>(updates_.leaf()), count);
  const Replica::LeafFormat format{.type = leaf_type_of(setup_.options),
                                   .loss_scale = static_cast<float>(input.progress.loss_scale),
                                   .micro_batches = setup_.options.gradient_accumulation()};
  replica.write_leaf(task.stage, leaf, totals_, format, updates_.state());
  // The first stage is the last to go backward.
  if (task.stage == 0) {
    const auto& result = pipelines_[static_cast<std::size_t>(task.replica)].result();
    replica.write_results(leaf, totals_, result, format);
  }
  if (++stages_handed_in_ < layout().stages) return;
  stages_handed_in_ = 0;
  updates_.take_leaf();
}

void Engine::check_totals(std::span<const float> totals, const Progress& progress) {
  check_losses(totals_.losses(totals), progress);
  check_integers(totals);
  name_idle_parameters(totals);
}

/// Loss scaling gets along with a loss that is not finite as long as it can go lower.
void Engine::check_losses(std::span<const float> losses, const Progress& progress) const {
  if (has_loss_scaling() && progress.loss_scale > 1) return;
  for (std::size_t replica = 0; replica < losses.size(); ++replica) {
    if (std::isfinite(losses[replica])) continue;
    const auto last = last_losses_.empty() ? std::string("there was no step before it")
                                           : fmt::format("the last finite losses were {:.6g}",
                                                         fmt::join(last_losses_, ", "));
    throw Error(
        ErrorKind::Diverged,
        fmt::format("train: the loss of replica {} is {} at step {}; {}", replica,
                    std::isnan(losses[replica]) ? std::abs(losses[replica]) : losses[replica],
                    progress.steps + 1, last),
        "a lower learning rate, a warm-up, or gradient clipping (--lr, --warmup-epochs, "
        "--clip-norm)");
  }
}

void Engine::check_integers(std::span<const float> totals) const {
  if (weights_.integers.empty()) return;
  const auto sums = totals_.hash(totals);
  for (const auto& replica : replicas_) {
    const auto hash = replica.integer_hash();
    for (std::size_t i = 0; i < hash.size(); ++i) {
      if (sums[i] == hash[i] * static_cast<float>(layout().replicas)) continue;
      throw Error(ErrorKind::Options,
                  fmt::format("model: replicas disagree about buffers of whole numbers, which "
                              "cannot be averaged: one of '{}' and {} others",
                              weights_.integers.front().name, weights_.integers.size() - 1),
                  "let them depend on the step alone, or make them floating-point buffers");
    }
  }
}

void Engine::name_idle_parameters(std::span<const float> totals) {
  const auto changed = totals_.changed(totals);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < weights_.parameters.size(); ++i) {
    const auto& name = weights_.parameters[i].name;
    if (changed[i] == 0 && told_.insert(name).second) names.push_back(name);
  }
  if (names.empty() || communicator_.rank() != 0) return;
  setup_.tell(fmt::format("parameters without a gradient on any replica stay as they are: {}",
                          fmt::join(names, ", ")));
}

/// In a skipped step all buffers stay what they are, not only those that have no infinities.
void Engine::next_integers(bool skipped, std::byte* next) const {
  if (!skipped) return replicas_.front().copy_integers(shape_.integers(next));
  std::memcpy(shape_.integers(next), shape_.integers(updates_.state()),
              static_cast<std::size_t>(weights_.integer_bytes));
}

void Engine::add_progress(Progress& next, bool skipped, const StepPlace& place,
                          const data::BatchShape& shape) const {
  if (next.epoch != place.epoch || place.begins_epoch) {
    next.epoch = place.epoch;
    next.epoch_steps = 0;
    next.epoch_loss = 0;
    next.epoch_metrics = {};
  }
  const auto output = output_of(updates_.totals(), shape);
  ++next.epoch_steps;
  next.epoch_loss += output.loss;
  for (std::size_t i = 0; i < output.metrics.size(); ++i) {
    next.epoch_metrics[i] += output.metrics[i];
  }
  if (!has_loss_scaling()) return;
  next.good_steps = skipped ? 0 : next.good_steps + 1;
  if (skipped) {
    next.loss_scale = std::max(1.0, next.loss_scale / 2);
  } else if (next.good_steps % kStepsToGrow == 0) {
    next.loss_scale = std::min(kLargestLossScale, next.loss_scale * 2);
  }
}

StepOutput Engine::output_of(std::span<const float> totals, const data::BatchShape& shape) const {
  StepOutput output;
  const auto losses = totals_.losses(totals);
  output.replica_losses.assign(losses.begin(), losses.end());
  for (const float loss : losses) output.loss += loss;
  output.loss /= static_cast<double>(losses.size());
  const auto sums = totals_.metrics(totals);
  for (std::size_t i = 0; i < sums.size(); ++i) {
    output.metrics.push_back(metrics()[i].scale * sums[i] /
                             static_cast<double>(shape.samples_per_step()));
  }
  return output;
}

void Engine::record(const std::vector<DeviceTimes>& devices, double idle, double reduce,
                    double step) {
  DeviceTimes mean;
  for (const auto& device : devices) {
    mean.data += device.data / static_cast<double>(devices.size());
    mean.compute += device.compute / static_cast<double>(devices.size());
    mean.reduce += device.reduce / static_cast<double>(devices.size());
  }
  const auto waited_for_devices = step - idle - reduce - mean.data - mean.compute - mean.reduce;
  perf_.stages.resize(static_cast<std::size_t>(layout().stages));
  for (const auto& device : devices) {
    for (std::size_t stage = 0; stage < device.stages.size(); ++stage) {
      perf_.stages[stage].forward.add(device.stages[stage].forward);
      perf_.stages[stage].backward.add(device.stages[stage].backward);
    }
  }
  perf_.data.add(mean.data);
  perf_.compute.add(mean.compute);
  perf_.reduce.add(mean.reduce + reduce);
  perf_.idle.add(idle + std::max(0.0, waited_for_devices));
  perf_.step.add(step);
}

void Engine::with_model(Which which, const std::function<void(nn::Model&)>& look) {
  guarded([&] {
    original_->attach(weights(which), updates_.state());
    look(original_->model());
  });
}

void Engine::set_model(const std::function<void(nn::Model&)>& change) {
  guarded([&] {
    original_->attach(weights(Which::Weights), updates_.state());
    original_->detach();
    change(original_->model());
    communicator_.barrier("set weights");  // nobody reads the old ones any more
    write_first_state();
    share_frozen();
  });
}

void Engine::guarded(const std::function<void()>& action) {
  try {
    nn::with_torch_errors("train", action);
  } catch (const Error& error) {
    communicator_.report_failure(error);
    throw;
  } catch (const std::exception& error) {
    communicator_.report_failure(
        Error(ErrorKind::PeerLost, fmt::format("train: {}", error.what())));
    throw;
  }
}

}  // namespace lockstep::train

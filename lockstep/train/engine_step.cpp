#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/nn/torch_errors.h"
#include "lockstep/train/engine.h"

namespace lockstep::train {

void Engine::begin(const DataLoader::Iteration& iteration, std::int64_t done) {
  iteration_ = iteration;
  next_step_ = done;
  if (resident_) return;  // which has begun with it already, perhaps
  auto& loader = *iteration.loader;
  source_ = std::make_unique<BatchSource>(loader.micro_batches(iteration, done), layout().local);
}

std::vector<StepOutput> Engine::step(const StepPlace& place) {
  std::vector<StepOutput> outputs;
  guarded([&] {
    if (resident_) {
      outputs = run_resident(place);
    } else {
      outputs.push_back(run_step(place));
    }
  });
  return outputs;
}

StepOutput Engine::run_step(const StepPlace& place) {
  Stopwatch whole;
  const auto& loader = *iteration_.loader;
  const StepInput input{*source_, loader.tensors(), progress()};
  std::vector<DeviceTimes> devices(static_cast<std::size_t>(threads_.count()));
  for (std::size_t device = 0; device < devices.size(); ++device) {
    devices[device].stages.resize(static_cast<std::size_t>(layout().stages));
    devices[device].spans = device_spans_[device];
  }
  make_leaves(input, devices);

  Stopwatch watch;
  double waited = 0;
  const RunLength length{loader.steps_per_epoch(), setup_.options.epochs()};
  auto step = update_.step(factor(setup_.options.schedule(), length, input.progress.steps),
                           [&](Progress& next, bool skipped, std::byte* state) {
                             add_progress(next, skipped, place, loader, updates_.totals());
                             next_integers(skipped, state);
                           });
  step.check = [&](std::span<const float> totals) {
    waited = watch.lap() - updates_.waited_for_hosts();
    check_totals(totals, input.progress);
  };
  step.spans = spans_;
  step.number = input.number();
  wait_for_copy();
  updates_.step(step);
  auto output = output_of(updates_.totals(), loader.shape());
  output.skipped = progress().updates == input.progress.updates;
  check_skipped(output, input.progress);
  if (communicator_.is_leader()) communicator_.note_step(progress().steps);
  if (std::isfinite(output.loss)) last_losses_ = output.replica_losses;
  record(devices, waited, watch.lap() + updates_.waited_for_hosts(), whole.lap());
  return output;
}

void Engine::make_leaves(const StepInput& input, std::vector<DeviceTimes>& devices) {
  if (gpu_) return make_gpu_leaves(input, devices.front());
  const events::TimedWait wait(spans_, input.number());
  flow_->restart();
  stages_handed_in_ = 0;
  threads_.run(
      [&](int device) { run_device(device, input, devices[static_cast<std::size_t>(device)]); },
      [&] {
        flow_->give_up();
        input.source.give_up();
      });
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
  while (const auto task = next_task(device, input, times.spans)) {
    const auto number = replicas_[static_cast<std::size_t>(task->replica)].number();
    const auto where = fmt::format("train: replica {}, step {}", number, input.number());
    nn::with_torch_errors(where, [&] { run_task(*task, input, times); });
    flow_->done(*task);
    communicator_.heartbeat("computing");
  }
}

std::optional<plan::FlowTask> Engine::next_task(int device, const StepInput& input,
                                                events::SpanSink* spans) {
  const events::TimedWait wait(spans, input.number());
  return flow_->next(device);
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
      const auto waited = task.stage == 0 ? enter(task, input, times.spans) : 0;
      const events::TimedScope span(times.spans, events::SpanKind::Forward, input.number());
      pipelines_[replica].forward(task.stage, task.micro_batch);
      return computed(stage.forward, waited);
    }
    case plan::FlowTask::Kind::Backward: {
      const events::TimedScope span(times.spans, events::SpanKind::Backward, input.number());
      run_backward(task, input);
      return computed(stage.backward);
    }
    case plan::FlowTask::Kind::HandIn: {
      const events::TimedScope span(times.spans, events::SpanKind::Reduce, input.number());
      hand_in(task, input);
      times.reduce += watch.lap();
      return;
    }
  }
}

/// The last pass of the last replica may hand in what it has found before it is through.
void Engine::run_backward(const plan::FlowTask& task, const StepInput& input) {
  const bool is_last = task.replica + 1 == std::ssize(replicas_) &&
                       task.micro_batch + 1 == setup_.options.gradient_accumulation();
  std::optional<EarlyLeaf::Pass> pass;
  if (early_ && is_last) pass.emplace(*early_, leaf_format(input));
  pipelines_[static_cast<std::size_t>(task.replica)].backward(task.stage, task.micro_batch);
}

Replica::LeafFormat Engine::leaf_format(const StepInput& input) const {
  return {.type = leaf_type(),
          .loss_scale = static_cast<float>(input.progress.loss_scale),
          .micro_batches = setup_.options.gradient_accumulation()};
}

/// With its first micro-batch a replica takes the current weights. Returns for how long it waited
/// for data.
double Engine::enter(const plan::FlowTask& task, const StepInput& input, events::SpanSink* spans) {
  auto& replica = replicas_[static_cast<std::size_t>(task.replica)];
  auto& pipeline = pipelines_[static_cast<std::size_t>(task.replica)];
  if (task.micro_batch == 0) {
    replica.attach(weights(Which::Weights, updates_.state()), updates_.state());
    pipeline.begin({.seed = setup_.options.seed(),
                    .step = static_cast<std::uint64_t>(input.progress.steps),
                    .replica = static_cast<std::uint32_t>(replica.number()),
                    .loss_scale = input.progress.loss_scale});
  }
  Stopwatch watch;
  auto batch = [&] {
    const events::TimedWait wait(spans, input.number());
    return input.source.next(replica.number(), spans);
  }();
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
  const auto format = leaf_format(input);
  replica.write_leaf(task.stage, leaf, totals_, format, updates_.state());
  // The first stage is the last to go backward.
  if (task.stage == 0) {
    const auto& result = pipelines_[static_cast<std::size_t>(task.replica)].result();
    replica.write_results(leaf, totals_, result, format);
    write_requests(leaf);
  }
  if (++stages_handed_in_ < layout().stages) return;
  stages_handed_in_ = 0;
  const auto lock = early_ ? std::unique_lock(early_->mutex()) : std::unique_lock<std::mutex>();
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
  if (gpu_) check_integers_agree(weights_, sums, gpu_integer_hash(), layout().replicas);
  for (const auto& replica : replicas_) {
    check_integers_agree(weights_, sums, replica.integer_hash(), layout().replicas);
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
  if (!skipped && gpu_) return gpu_->copy_integers(shape_.integers(next));
  if (!skipped) return replicas_.front().copy_integers(shape_.integers(next));
  std::memcpy(shape_.integers(next), shape_.integers(updates_.state()),
              static_cast<std::size_t>(weights_.integer_bytes));
}

void Engine::add_progress(Progress& next, bool skipped, const StepPlace& place,
                          const DataLoader& loader, std::span<const float> totals) const {
  if (next.epoch != place.epoch || place.begins_epoch) {
    next.epoch = place.epoch;
    next.epoch_steps = 0;
    next.epoch_loss = 0;
    next.epoch_metrics = {};
  }
  if (next.steps == 1) next.loader = loader.number();
  if (next.loader != loader.number()) next.loader = kSeveralLoaders;
  next.loop = place.loop;
  next.loop_epoch = place.loop_epoch;
  next.is_stopped = totals_.requests(totals)[static_cast<std::size_t>(Request::Stop)] > 0 ? 1 : 0;
  const auto output = output_of(totals, loader.shape());
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

}  // namespace lockstep::train

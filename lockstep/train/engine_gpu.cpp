#include <c10/core/DeviceType.h>
#include <fmt/format.h>
#include <torch/types.h>

#include <algorithm>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/base/fnv.h"
#include "lockstep/gpu/devices.h"
#include "lockstep/train/engine.h"
#include "lockstep/train/evaluation_run.h"
#include "lockstep/train/gpu_group.h"
#include "lockstep/train/gpu_memory.h"

namespace lockstep::train {
namespace {

GpuTraining::Weights gpu_weights(Which which) {
  return which == Which::Average ? GpuTraining::Weights::Average : GpuTraining::Weights::Trained;
}

/// While it lives, a GPU evaluates.
class GpuEvaluation {
 public:
  GpuEvaluation(GpuTraining& gpu, const GpuSamples& samples, Which which) : gpu_(gpu) {
    gpu_.begin_evaluation(samples, gpu_weights(which));
  }
  ~GpuEvaluation() { gpu_.end_evaluation(); }
  GpuEvaluation(const GpuEvaluation&) = delete;
  GpuEvaluation& operator=(const GpuEvaluation&) = delete;

 private:
  GpuTraining& gpu_;
};

}  // namespace

/// The state stays on the GPU where nobody else has a part in it, or GPUs add up by themselves.
void Engine::make_gpu(std::unique_ptr<nn::Model> model) {
  const bool is_known = setup_.optimizer.kind() != OptimizerKind::Custom;
  auto group = is_known ? join_gpus(communicator_, setup_.options, *layout().gpu) : nullptr;
  const bool is_resident = is_known && (communicator_.size() == 1 || group);
  if (const int gpus = gpu::count_devices(); gpus > 1 && communicator_.size() == 1) {
    setup_.tell(
        fmt::format("one of {0} GPUs is used: start an instance for each, with "
                    "--num-instances {0}",
                    gpus));
  }
  gpu_ = make_gpu_training({.weights = weights_,
                            .shape = shape_,
                            .optimizer = setup_.optimizer,
                            .task = setup_.task,
                            .device = *layout().gpu,
                            .compute = compute_type(setup_.options),
                            .leaf_type = leaf_type(),
                            .replicas = layout().replicas,
                            .divisor = update_.divisor(),
                            .seed = setup_.options.seed(),
                            .is_deterministic = setup_.options.is_deterministic(),
                            .home = updates_.states(),
                            .group = std::move(group),
                            .order = setup_.options.reduction_order(),
                            .tell = setup_.tell},
                           std::move(model));
  if (!is_resident) return;
  resident_.emplace(*gpu_, setup_.options, shape_, totals_);
  snapshots_.emplace(*gpu_, communicator_, updates_, shape_);
}

void Engine::send_to_gpu() {
  if (!gpu_) return;
  gpu_->upload(updates_.state(), frozen());
  if (resident_) resident_->take_over(updates_.state());
}

/// Where the sum is made by the host, a GPU computes one replica after another.
void Engine::prepare_gpu(const DataLoader& loader, std::int64_t kept_bytes) {
  const auto& options = setup_.options;
  const GpuInputShape input{.replicas = layout().local,
                            .micro_batches = options.gradient_accumulation(),
                            .batch_size = loader.shape().batch_size,
                            .steps = resident_ ? steps_per_launch(options) : 1};
  const bool by_replica = options.is_deterministic() || !resident_;
  const GpuDemand demand{
      .weights = weights_,
      .shape = shape_,
      .compute = compute_type(options),
      .input = input,
      .samples = {loader.fields(), loader.tensors().picture_format(), loader.stored()},
      .kept_bytes = kept_bytes};
  // One version of the state is there already.
  const auto memory =
      gpu::describe_device(*layout().gpu).free_bytes + static_cast<std::int64_t>(shape_.bytes());
  const auto passes =
      choose_passes(input, options.fuse(), by_replica, groups_that_fit(demand, memory));
  warn_of_memory(gpu_memory(demand, passes.front().groups()).total(), memory);
  gpu_->prepare({.input = input,
                 .samples = demand.samples,
                 .fuse = options.fuse(),
                 .passes = passes,
                 .leaves = leaves_of_all(communicator_, count_leaves(passes))});
  if (auto* const status = options.watchers().status) {
    const auto free = gpu::describe_device(*layout().gpu).free_bytes;
    status->note_device_memory(std::max<std::int64_t>(0, memory - free));
  }
}

void Engine::warn_of_memory(std::int64_t needed, std::int64_t available) const {
  if (needed <= available) return;
  const auto gib = [](std::int64_t bytes) { return static_cast<double>(bytes) / (1 << 30); };
  setup_.tell(
      fmt::format("GPU {}: this run needs about {:.1f} GiB, where {:.1f} are free: if that is too "
                  "much, try {}a lower --batch-size",
                  *layout().gpu, gib(needed), gib(available),
                  setup_.options.fuse() == Fuse::Off ? "" : "--fuse off, or "));
}

/// The state as it is, for whoever looks at it on the host.
void Engine::bring_home() {
  if (!resident_) return;
  snapshots_->finish();
  if (launches_away_ == 0) return;
  begin_snapshot();
  snapshots_->finish();
}

/// A checkpoint that is still copied from where it would be written is waited for.
void Engine::begin_snapshot() {
  wait_for_copy();
  snapshots_->begin(resident_->progress());
  launches_away_ = 0;
}

/// One that takes longer than the launches between two of them delays the next.
void Engine::take_snapshots() {
  snapshots_->commit_arrived();
  ++launches_away_;
  const bool is_due = launches_away_ >= setup_.options.snapshot_every();
  if (is_due && !snapshots_->is_under_way()) begin_snapshot();
}

/// The state as it is on the GPU, for this instance alone: nobody else takes part.
const std::byte* Engine::download() {
  own_state_.resize(shape_.bytes());
  gpu_->begin_download(own_state_.data());
  gpu_->wait_for_download();
  shape_.progress(own_state_.data()) = resident_->progress();
  return own_state_.data();
}

std::vector<StepOutput> Engine::run_resident(const StepPlace& place) {
  Stopwatch watch;
  auto& loader = *iteration_.loader;
  const RunLength length{loader.steps_per_epoch(), setup_.options.epochs()};
  auto steps = resident_->run(
      iteration_, next_step_,
      [&](std::int64_t step) { return factor(setup_.options.schedule(), length, step); },
      device_spans_.front());
  const auto computed = watch.lap();
  exchange_requests(totals_.requests(std::span(steps.back().totals)));
  const auto exchanged = watch.lap();
  std::vector<StepOutput> outputs;
  auto at = place;
  for (const auto& step : steps) {
    outputs.push_back(finish_resident(step, at));
    at.begins_epoch = false;
  }
  next_step_ += std::ssize(steps);
  if (communicator_.is_leader()) communicator_.note_step(progress().steps);
  const auto data = resident_->waited_for_data();
  record_launch(std::ssize(steps),
                {.data = data, .compute = computed - data + watch.lap(), .reduce = exchanged});
  take_snapshots();
  return outputs;
}

/// What anybody wants of all, they learn after each launch.
void Engine::exchange_requests(std::span<float> requests) {
  const events::TimedScope span(device_spans_.front(), events::SpanKind::Reduce, progress().steps);
  write_requests_into(requests);
  if (communicator_.size() > 1) {
    communicator_.all_reduce({requests.data(), std::ssize(requests), DataType::F32, "requests"});
  }
  std::ranges::copy(requests, resident_requests_.begin());
}

/// What the host knows of a step that the GPU has made.
StepOutput Engine::finish_resident(const ResidentTraining::Step& step, const StepPlace& place) {
  const auto& loader = *iteration_.loader;
  const auto before = progress();
  const auto& totals = step.totals;
  check_losses(totals_.losses(std::span<const float>(totals)), before);
  name_idle_parameters(totals);
  auto& next = resident_->progress();
  ++next.steps;
  if (!step.is_skipped) ++next.updates;
  add_progress(next, step.is_skipped, place, loader, totals);
  auto output = output_of(totals, loader.shape());
  output.skipped = step.is_skipped;
  check_skipped(output, before);
  if (std::isfinite(output.loss)) last_losses_ = output.replica_losses;
  return output;
}

/// Who is faster than the others waits for them where requests are exchanged.
void Engine::record_launch(std::int64_t steps, const events::PhaseSeconds& seconds) {
  const auto share = 1 / static_cast<double>(steps);
  for (std::int64_t i = 0; i < steps; ++i) {
    perf_.data.add(seconds.data * share);
    perf_.compute.add(seconds.compute * share);
    perf_.reduce.add(seconds.reduce * share);
    perf_.idle.add(0);
    perf_.step.add((seconds.data + seconds.compute + seconds.reduce) * share);
  }
}

/// One replica after another, with weights that the host has updated.
void Engine::make_gpu_leaves(const StepInput& input, DeviceTimes& times) {
  Stopwatch watch;
  gpu_->refresh(updates_.state());
  gpu_->set_loss_scale(input.progress.loss_scale, input.progress.good_steps);
  times.reduce += watch.lap();
  take_gpu_batches(input);
  times.data += watch.lap();
  for (int i = 0; i < layout().local.count; ++i) {
    const events::TimedScope span(device_spans_.front(), events::SpanKind::Launch,
                                  input.progress.steps);
    make_gpu_leaf(layout().local.first + i, input);
    communicator_.heartbeat("computing");
  }
  gpu_->release();
  times.compute += watch.lap();
}

void Engine::take_gpu_batches(const StepInput& input) {
  const events::TimedWait wait(device_spans_.front(), input.progress.steps);
  for (int i = 0; i < layout().local.count; ++i) {
    for (std::int64_t k = 0; k < setup_.options.gradient_accumulation(); ++k) {
      auto batch = input.source.next(layout().local.first + i);
      if (!batch) throw Error(ErrorKind::Bug, "train: the loader's epoch is too short");
      gpu_->take(0, std::move(*batch));
    }
  }
}

void Engine::make_gpu_leaf(int replica, const StepInput& input) {
  const auto count = static_cast<std::size_t>(weights_.num_elements);
  const std::span leaf(static_cast<float*>(updates_.leaf()), count + totals_.count());
  const auto totals = leaf.last(totals_.count());
  std::ranges::fill(totals, 0.0F);
  const auto found =
      gpu_->make_leaf(replica, input.progress.steps, leaf.first(count), totals_.changed(totals));
  const auto place = static_cast<std::size_t>(replica);
  totals_.losses(totals)[place] = found.losses[place];
  std::ranges::copy(found.metrics, totals_.metrics(totals).begin());
  const auto hash = gpu_integer_hash();
  std::ranges::copy(hash, totals_.hash(totals).begin());
  write_requests(leaf);
  updates_.take_leaf();
}

std::array<float, LeafTotals::kHashBytes> Engine::gpu_integer_hash() const {
  if (weights_.integers.empty()) return {};
  std::vector<std::byte> bytes(static_cast<std::size_t>(weights_.integer_bytes));
  gpu_->copy_integers(bytes.data());
  return hash_of_integers(bytes);
}

void Engine::evaluate_on_gpu(EvaluationRun& run) {
  const GpuEvaluation evaluation(
      *gpu_, {run.loader.fields(), run.loader.tensors().picture_format(), {}}, run.task.which);
  if (!resident_) gpu_->refresh(updates_.state());
  while (const auto batch = run.take()) {
    run.put(*batch, gpu_->evaluate(BatchTensors::as_loaded(*batch), run.task.class_field));
    communicator_.heartbeat("evaluating");
  }
}

at::Tensor Engine::predict_on_gpu(const at::Tensor& input, Which which) {
  if (!resident_) gpu_->refresh(updates_.state());
  const GpuEvaluation evaluation(*gpu_, {}, which);
  return gpu_->predict(input);
}

}  // namespace lockstep::train

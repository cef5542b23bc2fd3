#include "lockstep/train/backends/gpu/resident_gpu_backend.h"

#include <algorithm>

#include "lockstep/base/clock.h"
#include "lockstep/optimizer/schedule.h"

namespace lockstep::train {

ResidentGpuBackend::ResidentGpuBackend(const BackendContext& context,
                                       std::shared_ptr<const gpu::NcclGroup> group)
    : context_(context),
      session_(context, GpuSession::StateSource::Gpu, std::move(group)),
      gpu_(session_.gpu()),
      training_(gpu_, context.setup.options, context.state.totals()),
      snapshots_(gpu_, context.communicator(), context.state) {}

void ResidentGpuBackend::load_state() {
  const auto& state = context_.state;
  session_.upload();
  progress_ = state.progress();
  training_.continue_from(progress_, state.shape().counts(state.current()));
}

void ResidentGpuBackend::begin(const DataLoader::Iteration& iteration, std::int64_t first_step) {
  iteration_ = iteration;
  next_step_ = first_step;
}

std::vector<StepOutput> ResidentGpuBackend::run() {
  Stopwatch watch;
  const auto& options = context_.setup.options;
  const RunLength length{iteration_.loader->steps_per_epoch(), options.epochs()};
  auto steps = training_.run(
      {.iteration = iteration_,
       .first = next_step_,
       .steps_before = progress_.steps,
       .lr_factor = [&](std::int64_t step) { return factor(options.schedule(), length, step); },
       .spans = session_.spans()});
  const auto computed = watch.lap();
  exchange_requests(context_.state.totals().requests(std::span(steps.back().totals)));
  const auto exchanged = watch.lap();
  std::vector<StepOutput> outputs;
  for (const auto& step : steps) outputs.push_back(account_for(step));
  next_step_ += std::ssize(steps);
  auto& communicator = context_.communicator();
  if (communicator.is_leader()) communicator.note_step(progress_.steps);
  const auto data = training_.waited_for_data();
  record_times(std::ssize(steps),
               {.data = data, .compute = computed - data + watch.lap(), .reduce = exchanged});
  take_snapshots();
  return outputs;
}

/// Checks and reports a step that the GPU has committed.
StepOutput ResidentGpuBackend::account_for(const ResidentTraining::Step& step) {
  const auto before = progress_;
  context_.account.check(step.totals, before);
  progress_ = context_.account.advance(before, step.totals, step.is_skipped);
  return context_.account.report(step.totals, before, step.is_skipped);
}

/// Instances exchange requests once per launch. An instance that is faster waits here.
void ResidentGpuBackend::exchange_requests(std::span<float> requests) {
  const events::TimedScope span(session_.spans(), events::SpanKind::Reduce, progress_.steps + 1);
  context_.requests.write_into(requests);
  auto& communicator = context_.communicator();
  if (communicator.size() > 1) {
    communicator.all_reduce({requests.data(), std::ssize(requests), DataType::F32, "requests"});
  }
  context_.requests.receive(requests);
}

void ResidentGpuBackend::store_state() {
  snapshots_.finish();
  if (launches_since_snapshot_ == 0) return;
  begin_snapshot();
  snapshots_.finish();
}

/// A snapshot overwrites the version before the current one. A checkpoint may still be copying that
/// version.
void ResidentGpuBackend::begin_snapshot() {
  context_.copy.wait_before_write();
  snapshots_.begin(progress_);
  launches_since_snapshot_ = 0;
}

/// A snapshot that takes longer than the interval delays the next one.
void ResidentGpuBackend::take_snapshots() {
  snapshots_.commit_arrived();
  ++launches_since_snapshot_;
  const bool is_due = launches_since_snapshot_ >= context_.setup.options.snapshot_every();
  if (is_due && !snapshots_.is_under_way()) begin_snapshot();
}

/// A snapshot needs all instances, so an instance that reads alone downloads the state itself. The
/// last checkpoint may still be copying `own_state_`.
const std::byte* ResidentGpuBackend::read_state() {
  if (context_.communicator().size() == 1) {
    store_state();
    return context_.state.current();
  }
  context_.copy.wait();
  return copy_state();
}

const std::byte* ResidentGpuBackend::copy_state() {
  const auto& shape = context_.state.shape();
  own_state_.resize(shape.bytes());
  gpu_.begin_download(own_state_.data());
  gpu_.wait_for_download();
  shape.progress(own_state_.data()) = progress_;
  return own_state_.data();
}

void ResidentGpuBackend::record_times(std::int64_t steps, const events::PhaseSeconds& seconds) {
  const auto share = 1 / static_cast<double>(steps);
  auto& perf = context_.perf;
  for (std::int64_t i = 0; i < steps; ++i) {
    perf.data.add(seconds.data * share);
    perf.compute.add(seconds.compute * share);
    perf.reduce.add(seconds.reduce * share);
    perf.idle.add(0);
    perf.step.add((seconds.data + seconds.compute + seconds.reduce) * share);
  }
}

}  // namespace lockstep::train

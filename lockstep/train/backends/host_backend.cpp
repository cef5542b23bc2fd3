#include "lockstep/train/backends/host_backend.h"

#include <algorithm>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/optimizer/schedule.h"
#include "lockstep/train/engine/run_step.h"

namespace lockstep::train {

HostBackend::HostBackend(const BackendContext& context)
    : context_(context),
      sum_(context.state.sum()),
      update_(context.rules, context.state.weights(), context.state.shape(),
              context.state.totals()),
      spans_(context.watchers().track("update")) {}

void HostBackend::begin(const DataLoader::Iteration& iteration, std::int64_t first_step) {
  loader_ = iteration.loader;
  source_ = std::make_unique<BatchSource>(iteration.loader->micro_batches(iteration, first_step),
                                          context_.layout().local);
}

std::vector<StepOutput> HostBackend::run() {
  Stopwatch whole;
  before_ = progress();
  const auto stages = static_cast<std::size_t>(context_.layout().stages);
  for (auto& times : times_) {
    times = {.stages = std::vector<StageCounters>(stages), .spans = times.spans};
  }
  run_step(*this, context_.rules.step_rules, 0);
  record_times(whole.lap());
  std::vector<StepOutput> outputs;
  outputs.push_back(std::move(output_));
  return outputs;
}

data::Batch HostBackend::next_batch(int replica, events::SpanSink* spans) {
  auto batch = source_->next(replica, spans);
  if (!batch) throw Error(ErrorKind::Bug, "train: the loader's epoch is too short");
  return std::move(*batch);
}

std::span<float> HostBackend::leaf() {
  const auto& state = context_.state;
  const auto count =
      static_cast<std::size_t>(state.weights().num_elements) + state.totals().count();
  return {static_cast<float*>(sum_.leaf()), count};
}

void HostBackend::write_requests(std::span<float> totals) {
  const auto to = context_.state.totals().requests(totals);
  std::ranges::fill(to, 0.0F);
  if (sum_.is_at_last_leaf()) context_.requests.write_into(to);
}

/// Waits for all leaves, and adds their totals. On one host, `ShardedUpdate` adds the elements of a
/// block when a later operation reaches the block, so that they are still in the cache. On several
/// hosts, this waits for the sums of all hosts.
///
/// The update of this step overwrites the version before the current one. A checkpoint may still be
/// copying that version. Only the instance that copies can wait for this, and the other instances
/// of the host wait for that instance in `sum_.reduce`.
void HostBackend::reduce(std::int64_t) {
  watch_ = {};
  context_.copy.wait_before_write();
  sum_.reduce({.divisor = context_.rules.divisor,
               .num_divided = context_.state.weights().num_parameters,
               .passes = context_.rules.need_whole_sum() ? comm::ShardedUpdate::Passes::Several
                                                         : comm::ShardedUpdate::Passes::One,
               .spans = spans_,
               .step = number()});
  waited_seconds_ = watch_.lap() - sum_.waited_for_hosts();
}

void HostBackend::check(std::int64_t) {
  context_.account.check(sum_.totals(), before_);
  if (!context_.state.weights().integers.empty()) {
    check_integers(context_.state.totals().hash(sum_.totals()));
  }
}

void HostBackend::measure_gradients(std::int64_t) {
  const events::TimedScope span(spans_, events::SpanKind::Update, number());
  for (const auto part : sum_.parts()) update_.measure_gradients(part, sum_.values_of(part.block));
  sum_.share_measured();
}

void HostBackend::measure_trust(std::int64_t) {
  const events::TimedScope span(spans_, events::SpanKind::Update, number());
  const auto input = update_input();
  for (const auto part : sum_.parts()) {
    update_.measure_trust(part, input, decision_, sum_.values_of(part.block));
  }
  sum_.share_measured();
  decision_.trust = update_.decide_trust(sum_.measured());
}

void HostBackend::update(std::int64_t) {
  const events::TimedScope span(spans_, events::SpanKind::Update, number());
  const auto input = update_input();
  for (const auto part : sum_.parts()) update_.update(part, input, decision_);
  update_.end_parts();
  if (sum_.is_first_on_host()) write_rest_of_next_version();
}

UpdateInput HostBackend::update_input() const {
  const RunLength length{loader_->steps_per_epoch(), context_.setup.options.epochs()};
  return {.current = context_.state.current(),
          .next = sum_.next_state(),
          .totals = sum_.totals(),
          .lr_factor = factor(context_.setup.options.schedule(), length, before_.steps)};
}

/// Writes counts, progress and integer buffers. A skipped step keeps all buffers.
void HostBackend::write_rest_of_next_version() {
  const auto& shape = context_.state.shape();
  const auto input = update_input();
  update_.count_updates(input, decision_);
  shape.progress(input.next) =
      context_.account.advance(before_, sum_.totals(), decision_.is_skipped);
  if (!decision_.is_skipped) return copy_integers(shape.integers(input.next));
  std::memcpy(shape.integers(input.next), shape.integers(input.current),
              static_cast<std::size_t>(context_.state.weights().integer_bytes));
}

void HostBackend::report(std::int64_t) {
  context_.requests.receive(context_.state.totals().requests(sum_.totals()));
  output_ = context_.account.report(sum_.totals(), before_, decision_.is_skipped);
  auto& communicator = context_.communicator();
  if (communicator.is_leader()) communicator.note_step(progress().steps);
}

/// Devices run in parallel, so the time of a phase is the mean over the devices. The rest of the
/// step is idle time: waits for other devices and other instances.
void HostBackend::record_times(double seconds) {
  const auto reduce = watch_.lap() + sum_.waited_for_hosts();
  DeviceTimes mean;
  const auto count = static_cast<double>(times_.size());
  for (const auto& device : times_) {
    mean.data += device.data / count;
    mean.compute += device.compute / count;
    mean.reduce += device.reduce / count;
  }
  const auto waited_for_devices =
      seconds - waited_seconds_ - reduce - mean.data - mean.compute - mean.reduce;
  auto& perf = context_.perf;
  perf.stages.resize(static_cast<std::size_t>(context_.layout().stages));
  for (const auto& device : times_) {
    for (std::size_t stage = 0; stage < device.stages.size(); ++stage) {
      perf.stages[stage].forward.add(device.stages[stage].forward);
      perf.stages[stage].backward.add(device.stages[stage].backward);
    }
  }
  perf.data.add(mean.data);
  perf.compute.add(mean.compute);
  perf.reduce.add(mean.reduce + reduce);
  perf.idle.add(waited_seconds_ + std::max(0.0, waited_for_devices));
  perf.step.add(seconds);
}

}  // namespace lockstep::train

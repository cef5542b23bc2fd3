#include "lockstep/train/backends/gpu/resident_training.h"

#include <algorithm>

#include "lockstep/base/clock.h"
#include "lockstep/base/error.h"
#include "lockstep/train/planner/job_layout.h"

namespace lockstep::train {

void ResidentTraining::continue_from(const Progress& progress,
                                     std::span<const std::int64_t> counts) {
  counts_.assign(counts.begin(), counts.end());
  gpu_.set_loss_scale(progress.loss_scale, progress.good_steps);
}

ResidentTraining::StepRange ResidentTraining::range_from(const DataLoader::Iteration& iteration,
                                                         std::int64_t first) const {
  const auto left = options_.device_iterations() - first;
  return {
      .iteration = iteration, .first = first, .steps = std::min(left, steps_per_launch(options_))};
}

ResidentTraining::StepRange ResidentTraining::after(const StepRange& range) const {
  const auto end = range.first + range.steps;
  if (end < options_.device_iterations()) return range_from(range.iteration, end);
  auto next = range.iteration;
  if (++next.number == next.loader->size()) {
    next.number = 0;
    ++next.epoch;
  }
  return range_from(next, 0);
}

void ResidentTraining::load(const StepRange& range) {
  auto& loader = *range.iteration.loader;
  auto& batches = loader.micro_batches(range.iteration, range.first);
  const auto per_step = options_.gradient_accumulation() * loader.layout().local.count;
  for (std::int64_t i = 0; i < range.steps * per_step; ++i) {
    auto batch = batches.next();
    if (!batch) throw Error(ErrorKind::Bug, "train: the loader's epoch is too short");
    gpu_.take(i / per_step, std::move(*batch));
  }
  loaded_ = range;
}

std::vector<ResidentTraining::Step> ResidentTraining::run(const Launch& launch) {
  Stopwatch watch;
  const auto& iteration = launch.iteration;
  const auto range = range_from(iteration, launch.first);
  const auto is_same = [&](const StepRange& other) {
    return other.iteration.loader == iteration.loader && other.iteration.epoch == iteration.epoch &&
           other.iteration.number == iteration.number && other.first == launch.first;
  };
  if (!loaded_ || !is_same(*loaded_)) {
    const events::TimedWait wait(launch.spans, launch.steps_before + 1);
    gpu_.release();
    load(range);
  }
  waited_for_data_ = watch.lap();
  const events::TimedScope span(launch.spans, events::SpanKind::Launch, launch.steps_before + 1);
  std::vector<double> factors;
  for (std::int64_t i = 0; i < range.steps; ++i) {
    factors.push_back(launch.lr_factor(launch.steps_before + i));
  }
  gpu_.launch({.first_step = launch.steps_before, .lr_factors = factors, .counts = counts_});
  gpu_.release();
  load(after(range));
  std::vector<Step> steps;
  for (const auto& record : gpu_.wait()) {
    steps.push_back(read(record));
    count(steps.back());
  }
  return steps;
}

ResidentTraining::Step ResidentTraining::read(const GpuStepResult& record) const {
  Step step{.totals = std::vector<float>(totals_.count()), .is_skipped = record.is_skipped};
  const std::span<float> totals(step.totals);
  std::ranges::copy(gpu_.has_gradient(), totals_.changed(totals).begin());
  std::ranges::copy(record.losses, totals_.losses(totals).begin());
  std::ranges::copy(record.metrics, totals_.metrics(totals).begin());
  return step;
}

/// The host repeats the counting of the GPU, because it fills the tables of the next launch.
void ResidentTraining::count(const Step& step) {
  if (step.is_skipped) return;
  const auto has_gradient = gpu_.has_gradient();
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += has_gradient[i] != 0 ? 1 : 0;
}

void GpuSnapshots::begin(const Progress& progress) {
  if (is_first()) gpu_.begin_download(state_.sum().next_state());
  progress_ = progress;
  is_under_way_ = true;
}

void GpuSnapshots::commit_arrived() {
  if (!is_under_way_) return;
  std::int64_t is_there = is_first() && gpu_.is_downloaded() ? 1 : 0;
  if (communicator_.size() > 1) {
    communicator_.broadcast({&is_there, 1, DataType::I64, "snapshot"}, 0);
  }
  if (is_there != 0) commit();
}

void GpuSnapshots::finish() {
  if (!is_under_way_) return;
  if (is_first()) gpu_.wait_for_download();
  commit();
}

void GpuSnapshots::commit() {
  is_under_way_ = false;
  state_.publish([&](std::byte* next, float*) { state_.shape().progress(next) = progress_; });
}

}  // namespace lockstep::train

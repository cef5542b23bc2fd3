#include "lockstep/train/engine/evaluator.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kMostClasses = std::int64_t{1} << 31;

std::int64_t code_of(std::int64_t truth, std::int64_t predicted) noexcept {
  return 1 + truth * kMostClasses + predicted;
}

}  // namespace

Evaluator::Evaluator(EvaluationLoader& loader, EvaluationTask task,
                     std::vector<double> metric_scales, const OnBatch& on_batch)
    : loader_(loader),
      task_(std::move(task)),
      metric_scales_(std::move(metric_scales)),
      on_batch_(on_batch),
      batches_(loader.batches_from_the_first()),
      width_(metric_scales_.size() + 1),
      sums_(static_cast<std::size_t>(loader.batches()) * width_),
      codes_(has_classes() ? static_cast<std::size_t>(loader.samples()) : 0) {}

std::optional<data::Batch> Evaluator::take() {
  const std::lock_guard lock(mutex_);
  if (is_over_) return std::nullopt;
  auto batch = batches_.next();
  is_over_ = !batch;  // After its end, the loader would start again.
  return batch;
}

void Evaluator::put(const data::Batch& batch, const ReplicaResult& result) {
  const auto number = batch.place().batch;
  auto* to = sums_.data() + static_cast<std::size_t>(number) * width_;
  to[0] = result.loss * static_cast<double>(batch.size());
  std::ranges::copy(result.metrics, to + 1);
  auto* code = codes_.data() + (has_classes() ? number * loader_.size_of(0) : 0);
  for (std::size_t i = 0; i < result.truths.size(); ++i) {
    *code++ = code_of(result.truths[i], result.predictions[i]);
  }
  const std::lock_guard lock(mutex_);
  num_classes_ = std::max(num_classes_, result.classes);
  on_batch_(++done_);
}

EvaluationMeans Evaluator::finish(comm::Communicator& communicator) {
  communicator.all_reduce({sums_.data(), std::ssize(sums_), DataType::F64, "evaluation"});
  std::vector<double> total(width_);
  for (std::size_t i = 0; i < sums_.size(); ++i) total[i % width_] += sums_[i];
  const auto samples = static_cast<double>(loader_.samples());
  EvaluationMeans means{.loss = total[0] / samples, .metrics = {}};
  for (std::size_t i = 0; i < metric_scales_.size(); ++i) {
    means.metrics.push_back(metric_scales_[i] * total[i + 1] / samples);
  }
  if (!has_classes()) return means;
  communicator.all_reduce({codes_.data(), std::ssize(codes_), DataType::I64, "predictions"});
  communicator.all_reduce({&num_classes_, 1, DataType::I64, "classes"}, comm::ReduceOp::Max);
  means.confusion = confusion();
  return means;
}

/// Counts every sample exactly once.
ConfusionMatrix Evaluator::confusion() const {
  ConfusionMatrix matrix(num_classes_);
  for (std::size_t i = 0; i < codes_.size(); ++i) {
    if (codes_[i] == 0) {
      throw Error(ErrorKind::Bug, fmt::format("evaluate: sample {} was not evaluated", i));
    }
    matrix.add((codes_[i] - 1) / kMostClasses, (codes_[i] - 1) % kMostClasses);
  }
  return matrix;
}

}  // namespace lockstep::train

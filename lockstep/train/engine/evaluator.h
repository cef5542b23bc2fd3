#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/train/api/data_loader.h"
#include "lockstep/train/api/evaluation.h"
#include "lockstep/train/backends/replica.h"

namespace lockstep::train {

/// The options of an evaluation.
struct EvaluationTask {
  WeightsKind weights = WeightsKind::Trained;
  std::string class_field{};  ///< for the confusion matrix; empty: no matrix
};

/// Loss and metrics of an evaluation, averaged over all samples.
struct EvaluationMeans {
  double loss = 0;
  std::vector<double> metrics;
  ConfusionMatrix confusion{};  ///< empty unless `EvaluationTask::class_field` is set
};

/// One evaluation: hands out the batches of this instance, and combines the results of the batches
/// of all instances.
///
/// A batch has the same samples on any layout. Its result has its own place, which one instance
/// fills and all other instances leave zero. The sum over instances is therefore exact, and the
/// results are added in the order of the batches, whichever instance has computed them.
///
/// Any thread may call `take` and `put`.
class Evaluator {
 public:
  using OnBatch = std::function<void(std::int64_t done)>;

  /// `metric_scales` has a number for each metric: 100 for a metric in percent. `on_batch` is
  /// called by the threads that call `put`, by one at a time.
  Evaluator(EvaluationLoader& loader, EvaluationTask task, std::vector<double> metric_scales,
            const OnBatch& on_batch);

  EvaluationLoader& loader() const noexcept { return loader_; }
  const EvaluationTask& task() const noexcept { return task_; }

  /// Returns the next batch of this instance, or nullopt after the last one.
  std::optional<data::Batch> take();
  void put(const data::Batch& batch, const ReplicaResult& result);

  /// Combines the results of all instances. Every instance calls it.
  EvaluationMeans finish(comm::Communicator& communicator);

 private:
  bool has_classes() const noexcept { return !task_.class_field.empty(); }
  ConfusionMatrix confusion() const;

  EvaluationLoader& loader_;
  const EvaluationTask task_;
  const std::vector<double> metric_scales_;
  const OnBatch& on_batch_;
  data::Loader& batches_;
  std::mutex mutex_;  ///< protects `batches_`, `on_batch_` and `num_classes_`
  std::int64_t done_ = 0;
  bool is_over_ = false;
  std::size_t width_;         ///< numbers of a batch: the sum of its losses, then of each metric
  std::vector<double> sums_;  ///< by batch
  std::int64_t num_classes_ = 0;
  /// By sample: its class and the predicted class in one number. 0: not evaluated.
  std::vector<std::int64_t> codes_;
};

}  // namespace lockstep::train

#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/train/engine.h"

namespace lockstep::train {

/// One evaluation: the batches of this instance, and the results of the batches of all instances.
///
/// A batch holds the same samples on any layout. Its results have a place of their own, which one
/// instance fills and all others leave zero. The sum over instances is therefore exact, and the
/// results are added in the order of the batches, whatever instance has computed them.
struct Engine::EvaluationRun {
  EvaluationLoader& loader;
  const EvaluationTask& task;
  const std::function<void(std::int64_t)>& on_batch;
  data::Loader& batches = loader.batches_from_the_first();
  std::mutex mutex{};  ///< of `batches`, `on_batch` and `num_classes`
  std::int64_t done = 0;
  bool is_over = false;
  std::size_t width;
  /// By batch: the sum of losses, then the sum of each metric.
  std::vector<double> sums =
      std::vector<double>(static_cast<std::size_t>(loader.batches()) * width);
  std::int64_t num_classes = 0;
  /// By sample: its class and the predicted class in one number, see `code_of`. 0: not evaluated.
  std::vector<std::int64_t> codes =
      std::vector<std::int64_t>(has_classes() ? static_cast<std::size_t>(loader.samples()) : 0);

  static constexpr std::int64_t kMostClasses = std::int64_t{1} << 31;

  bool has_classes() const noexcept { return !task.class_field.empty(); }

  std::optional<data::Batch> take() {
    const std::lock_guard lock(mutex);
    if (is_over) return std::nullopt;
    auto batch = batches.next();
    is_over = !batch;  // The loader would start again if it were asked once more.
    return batch;
  }

  void put(const data::Batch& batch, const ReplicaResult& found) {
    const auto number = batch.place().batch;
    auto* to = sums.data() + static_cast<std::size_t>(number) * width;
    to[0] = found.loss * static_cast<double>(batch.size());
    std::copy(found.metrics.begin(), found.metrics.end(), to + 1);
    auto* code = codes.data() + (has_classes() ? number * loader.size_of(0) : 0);
    for (std::size_t i = 0; i < found.truths.size(); ++i) {
      *code++ = code_of(found.truths[i], found.predictions[i]);
    }
    const std::lock_guard lock(mutex);
    num_classes = std::max(num_classes, found.classes);
    on_batch(++done);
  }

  void gather_classes(comm::Communicator& communicator) {
    communicator.all_reduce({codes.data(), std::ssize(codes), DataType::I64, "predictions"});
    communicator.all_reduce({&num_classes, 1, DataType::I64, "classes"}, comm::ReduceOp::Max);
  }

  /// The counts of all samples, each exactly once.
  ConfusionMatrix confusion() const {
    ConfusionMatrix matrix(num_classes);
    for (std::size_t i = 0; i < codes.size(); ++i) {
      if (codes[i] == 0) {
        throw Error(ErrorKind::Bug, fmt::format("evaluate: sample {} was not evaluated", i));
      }
      matrix.add((codes[i] - 1) / kMostClasses, (codes[i] - 1) % kMostClasses);
    }
    return matrix;
  }

  static std::int64_t code_of(std::int64_t truth, std::int64_t predicted) noexcept {
    return 1 + truth * kMostClasses + predicted;
  }
};

}  // namespace lockstep::train

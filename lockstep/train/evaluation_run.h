#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/train/engine.h"

namespace lockstep::train {

/// The batches of this instance, and what was found in those of the whole job.
struct Engine::EvaluationRun {
  EvaluationLoader& loader;
  Which which;
  const std::function<void(std::int64_t)>& on_batch;
  data::Loader& batches = loader.batches_from_the_first();
  std::mutex mutex{};  ///< of `batches` and `on_batch`
  std::int64_t done = 0;
  bool is_over = false;
  /// By batch: the sum of losses, then of each metric. Whoever has a batch writes its numbers, all
  /// others leave zeros, so adding up loses nothing.
  std::size_t width;
  std::vector<double> sums =
      std::vector<double>(static_cast<std::size_t>(loader.batches()) * width);

  std::optional<data::Batch> take() {
    const std::lock_guard lock(mutex);
    if (is_over) return std::nullopt;
    auto batch = batches.next();
    is_over = !batch;  // asked again, the loader would begin anew
    return batch;
  }
  void put(const data::Batch& batch, const ReplicaResult& found) {
    auto* to = sums.data() + static_cast<std::size_t>(batch.place().batch) * width;
    to[0] = found.loss * static_cast<double>(batch.size());
    std::copy(found.metrics.begin(), found.metrics.end(), to + 1);
    const std::lock_guard lock(mutex);
    on_batch(++done);
  }
};

}  // namespace lockstep::train

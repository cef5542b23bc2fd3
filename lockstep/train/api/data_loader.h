#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/data/dataset.h"
#include "lockstep/data/field.h"
#include "lockstep/data/loader/loader.h"
#include "lockstep/data/sampling/batch_shape.h"
#include "lockstep/data/transform/pipeline.h"
#include "lockstep/train/api/options.h"

namespace lockstep {

namespace train {
class BatchTensors;
struct JobLayout;
struct StoredSet;
}  // namespace train

/// Options of a loader.
struct DataLoaderOptions {
  std::int64_t batch_size = 1;  ///< B: samples of a micro-batch
  bool shuffle = false;
  std::optional<std::int64_t> limit{};  ///< number of samples, chosen by the seed; unset: all
  data::LoaderMode mode = data::LoaderMode::Async;
  std::optional<int> workers{};
  /// For images. Unset: not transformed, x/255 in the precision of the input.
  std::optional<data::Pipeline> pipeline{};
  std::string image_field = "image";
};

/// The samples of a training. `TrainingModel::step` loads the samples of this instance's replicas.
///
///     for (auto& iteration : loader) model.step(iteration);  // one epoch per loop
///
/// The samples depend only on the dataset, the seed, the batch sizes and the number of replicas.
/// One thread at a time. Errors: those of `data::Loader` and `data::TrainOrder`.
class LOCKSTEP_API DataLoader {
 public:
  DataLoader(const Options& options, data::DatasetPtr set, const DataLoaderOptions& loading);
  DataLoader(DataLoader&&) noexcept;
  DataLoader& operator=(DataLoader&&) noexcept;
  ~DataLoader();

  /// The samples of one call of `TrainingModel::step`: D optimizer steps. They are loaded during
  /// the call.
  struct Iteration {
    DataLoader* loader;
    std::int64_t epoch;   ///< from 0
    std::int64_t number;  ///< within the epoch, from 0
  };

  /// Iterations of an epoch.
  std::int64_t size() const noexcept;
  std::int64_t steps_per_epoch() const noexcept;
  const data::BatchShape& shape() const noexcept;
  /// Number of samples of an epoch.
  std::int64_t samples() const noexcept;
  /// Whether each epoch has its own order.
  bool is_shuffled() const noexcept;

  /// Sets the position at which the next loop begins.
  void go_to(std::int64_t epoch, std::int64_t iteration = 0);

  class Iterator;
  Iterator begin();
  std::default_sentinel_t end() const noexcept { return {}; }

  // For the engine.
  const train::JobLayout& layout() const noexcept;
  const train::BatchTensors& tensors() const noexcept;
  /// The set that is stored on the GPU, if there is one.
  const std::optional<train::StoredSet>& stored() const noexcept;
  /// The fields of a sample.
  const std::vector<data::Field>& fields() const noexcept;
  int workers() const noexcept;
  /// Largest number of micro-batches that are filled or in use at the same time.
  int buffers() const noexcept;
  /// Seeks to the first micro-batch of step `first_step` of the iteration.
  data::Loader& micro_batches(const Iteration& iteration, std::int64_t first_step = 0);
  /// Index among the loaders created from the same `Options`.
  int number() const noexcept;

 private:
  struct LOCKSTEP_INTERNAL State;
  std::unique_ptr<State> state_;
};

class DataLoader::Iterator {
 public:
  explicit Iterator(const Iteration& at) : at_(at) {}
  Iteration& operator*() const noexcept { return at_; }
  /// Completed iterations of the epoch, in this run or an earlier one.
  std::int64_t done() const noexcept { return at_.number; }
  Iterator& operator++() noexcept {
    ++at_.number;
    return *this;
  }
  bool operator==(std::default_sentinel_t) const { return at_.number >= at_.loader->size(); }

 private:
  mutable Iteration at_;  ///< the loop must not change it
};

/// The samples of an evaluation, each once. Each batch is evaluated by one replica.
class LOCKSTEP_API EvaluationLoader {
 public:
  EvaluationLoader(const Options& options, data::DatasetPtr set, const DataLoaderOptions& loading);
  EvaluationLoader(EvaluationLoader&&) noexcept;
  EvaluationLoader& operator=(EvaluationLoader&&) noexcept;
  ~EvaluationLoader();

  std::int64_t batches() const noexcept;
  std::int64_t local_batches() const noexcept;
  std::int64_t samples() const noexcept;
  std::int64_t size_of(std::int64_t batch) const noexcept;

  // For the engine.
  const std::vector<data::Field>& fields() const noexcept;
  const train::BatchTensors& tensors() const noexcept;
  data::Loader& batches_from_the_first();

 private:
  struct LOCKSTEP_INTERNAL State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep

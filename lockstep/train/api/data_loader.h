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

/// What a loader of a training job is asked for.
struct DataLoaderOptions {
  std::int64_t batch_size = 1;  ///< B: samples of a micro-batch
  bool shuffle = false;
  std::optional<std::int64_t> limit{};  ///< samples that are used, chosen by the seed
  data::LoaderMode mode = data::LoaderMode::Async;
  std::optional<int> workers{};
  /// For pictures; unset: as they are, x/255 in the precision of the input.
  std::optional<data::Pipeline> pipeline{};
  std::string image_field = "image";
};

/// The samples of a training job, iteration by iteration: `TrainingModel::step` takes from it what
/// the replicas of this instance need.
///
///     for (auto& iteration : loader) model.step(iteration);   // one epoch; then the next
///
/// What comes is a function of the set, the seed, the batch sizes and the number of replicas alone.
/// One thread uses it at a time. Errors: those of `data::Loader` and `data::TrainOrder`.
class LOCKSTEP_API DataLoader {
 public:
  DataLoader(const Options& options, data::DatasetPtr set, const DataLoaderOptions& loading);
  DataLoader(DataLoader&&) noexcept;
  DataLoader& operator=(DataLoader&&) noexcept;
  ~DataLoader();

  /// One call of `TrainingModel::step`: D optimizer steps. The samples are loaded while it runs.
  struct Iteration {
    DataLoader* loader;
    std::int64_t epoch;   ///< from 0
    std::int64_t number;  ///< within the epoch, from 0
  };

  std::int64_t size() const noexcept;
  std::int64_t steps_per_epoch() const noexcept;
  const data::BatchShape& shape() const noexcept;
  /// That are used, and whether each epoch has an order of its own.
  std::int64_t samples() const noexcept;
  bool is_shuffled() const noexcept;

  /// Where the next walk over it begins.
  void go_to(std::int64_t epoch, std::int64_t iteration = 0);

  class Iterator;
  Iterator begin();
  std::default_sentinel_t end() const noexcept { return {}; }

  // For the engine.
  const train::JobLayout& layout() const noexcept;
  const train::BatchTensors& tensors() const noexcept;
  /// Where samples are made on a GPU.
  const std::optional<train::StoredSet>& stored() const noexcept;
  /// The fields of a micro-batch that training sees, by sample.
  const std::vector<data::Field>& fields() const noexcept;
  int workers() const noexcept;
  /// Micro-batches that are filled or in use at the same time.
  int buffers() const noexcept;
  /// Stands at the first micro-batch of an iteration then, or of a later step of it.
  data::Loader& micro_batches(const Iteration& iteration, std::int64_t first_step = 0);
  /// Among those that were made with the same options.
  int number() const noexcept;

 private:
  struct LOCKSTEP_INTERNAL State;
  std::unique_ptr<State> state_;
};

class DataLoader::Iterator {
 public:
  explicit Iterator(const Iteration& at) : at_(at) {}
  Iteration& operator*() const noexcept { return at_; }
  /// Iterations of the epoch that are behind it, some of them perhaps in an earlier run.
  std::int64_t done() const noexcept { return at_.number; }
  Iterator& operator++() noexcept {
    ++at_.number;
    return *this;
  }
  bool operator==(std::default_sentinel_t) const { return at_.number >= at_.loader->size(); }

 private:
  mutable Iteration at_;  ///< what the loop sees, which may not change where it is
};

/// The samples that a model is tested with, each once; whole batches are dealt out to replicas.
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

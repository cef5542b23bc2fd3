#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/data/loader/loader.h"
#include "lockstep/train/batch_tensors.h"
#include "lockstep/train/job_layout.h"
#include "lockstep/train/options.h"
#include "lockstep/train/stored_set.h"

namespace lockstep {

namespace train {

/// Micro-batches that an instance has filled, or in use, at the same time; `first_devices` of its
/// devices begin replicas.
int batches_at_once(const Options& options, int first_devices);
/// The same for an instance of this layout, whatever computes.
int loader_buffers(const Options& options, const JobLayout& layout);

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
class DataLoader {
 public:
  DataLoader(const Options& options, data::DatasetPtr set, const DataLoaderOptions& loading);

  /// One call of `TrainingModel::step`: D optimizer steps. The samples are loaded while it runs.
  struct Iteration {
    DataLoader* loader;
    std::int64_t epoch;   ///< from 0
    std::int64_t number;  ///< within the epoch, from 0
  };

  std::int64_t size() const noexcept { return order_.iterations_per_epoch(); }
  std::int64_t steps_per_epoch() const noexcept { return order_.steps_per_epoch(); }
  const data::BatchShape& shape() const noexcept { return order_.shape(); }
  /// That are used, and whether each epoch has an order of its own.
  std::int64_t samples() const noexcept { return order_.samples(); }
  bool is_shuffled() const noexcept { return is_shuffled_; }

  /// Where the next walk over it begins.
  void go_to(std::int64_t epoch, std::int64_t iteration = 0);

  class Iterator;
  Iterator begin();
  std::default_sentinel_t end() const noexcept { return {}; }

  // For the engine.
  const train::JobLayout& layout() const noexcept { return layout_; }
  const train::BatchTensors& tensors() const noexcept { return tensors_; }
  /// Where samples are made on a GPU.
  const std::optional<train::StoredSet>& stored() const noexcept { return stored_; }
  /// The fields of a micro-batch that training sees, by sample.
  const std::vector<data::Field>& fields() const noexcept {
    return stored_ ? stored_fields_ : loader_.fields();
  }
  int workers() const noexcept { return loader_.workers(); }
  /// Micro-batches that are filled or in use at the same time.
  int buffers() const noexcept { return buffers_; }
  /// Stands at the first micro-batch of an iteration then, or of a later step of it.
  data::Loader& micro_batches(const Iteration& iteration, std::int64_t first_step = 0);
  /// Among those that were made with the same options.
  int number() const noexcept { return number_; }

 private:
  train::JobLayout layout_;
  data::TrainOrder order_;
  train::BatchTensors tensors_;
  std::optional<train::StoredSet> stored_;
  std::vector<data::Field> stored_fields_;
  int buffers_;
  data::Loader loader_;
  std::int64_t batches_per_iteration_;
  bool is_shuffled_;
  std::shared_ptr<train::LoopPosition> position_;
  int number_;
  std::int64_t next_epoch_ = 0;
  std::int64_t next_iteration_ = 0;
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
class EvaluationLoader {
 public:
  EvaluationLoader(const Options& options, data::DatasetPtr set, const DataLoaderOptions& loading);

  std::int64_t batches() const noexcept { return order_.batches(); }
  std::int64_t local_batches() const noexcept { return loader_.batches_per_epoch(); }
  std::int64_t samples() const noexcept { return order_.samples(); }
  std::int64_t size_of(std::int64_t batch) const noexcept { return order_.size_of(batch); }

  // For the engine.
  const std::vector<data::Field>& fields() const noexcept { return loader_.fields(); }
  const train::BatchTensors& tensors() const noexcept { return tensors_; }
  data::Loader& batches_from_the_first();

 private:
  train::JobLayout layout_;
  data::EvaluationOrder order_;
  train::BatchTensors tensors_;
  data::Loader loader_;
};

}  // namespace lockstep

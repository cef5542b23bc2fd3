#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "lockstep/base/export.h"
#include "lockstep/data/sampling/batch_shape.h"

namespace lockstep::data {

class Permutation;

/// The samples of a set that are used at all: every one, or `limit` of them, chosen by the seed
/// alone (the first of a permutation), so that runs of different length use the same ones.
class LOCKSTEP_API Subset {
 public:
  /// Throws `Data` where the set is empty, `Options` where the limit is below 1 or above its size.
  Subset(std::int64_t set_size, std::uint64_t seed, std::optional<std::int64_t> limit = {});

  std::int64_t size() const noexcept { return size_; }
  /// The sample of the set at a place of the subset.
  std::int64_t operator[](std::int64_t place) const noexcept;

 private:
  std::int64_t size_;
  std::shared_ptr<const Permutation> chosen_;  ///< null: all of them
};

/// One micro-batch of a training job.
struct MicroBatchPlace {
  std::int64_t epoch = 0;
  std::int64_t step = 0;     ///< optimizer step within the epoch
  std::int64_t replica = 0;  ///< of the whole job
  std::int64_t index = 0;    ///< 0..G-1 within the step
};

struct TrainOrderOptions {
  std::uint64_t seed = 0;
  bool shuffle = true;
  std::optional<std::int64_t> limit{};
};

/// Which samples a training job uses when: step k of an epoch takes the next B·G·R entries of
/// perm(seed, epoch), replica r the r-th part of them, micro-batch g the g-th part of that.
///
/// A pure function: it can be asked about any place, and does not know of instances, workers or
/// modes. Any number of threads.
class LOCKSTEP_API TrainOrder {
 public:
  /// Throws `Options` where the set does not fill one iteration.
  TrainOrder(std::int64_t set_size, const BatchShape& shape, const TrainOrderOptions& options);

  const BatchShape& shape() const noexcept { return shape_; }
  std::uint64_t seed() const noexcept { return options_.seed; }
  std::int64_t samples() const noexcept { return subset_.size(); }
  std::int64_t iterations_per_epoch() const noexcept { return iterations_; }
  std::int64_t steps_per_epoch() const noexcept { return iterations_ * shape_.device_iterations; }

  /// Where a micro-batch begins in its epoch's order.
  std::int64_t begin_of(const MicroBatchPlace& place) const noexcept;
  /// Writes the samples at `begin` and behind it, of an epoch's order.
  void samples_at(std::int64_t epoch, std::int64_t begin, std::span<std::int64_t> out) const;
  /// Writes the B samples of a micro-batch.
  void samples_of(const MicroBatchPlace& place, std::span<std::int64_t> out) const {
    samples_at(place.epoch, begin_of(place), out);
  }

 private:
  BatchShape shape_;
  TrainOrderOptions options_;
  Subset subset_;
  std::int64_t iterations_;
};

struct EvaluationOrderOptions {
  std::int64_t batch_size = 1;
  std::int64_t replicas = 1;
  std::uint64_t seed = 0;  ///< chooses the subset, if there is a limit
  std::optional<std::int64_t> limit{};
};

/// How a set is evaluated: batch j is samples [jB, (j+1)B), the last may be short, and whole
/// batches are dealt out: batch j to replica j mod R. So every sample counts once, whatever R is,
/// and results can be combined by j.
class LOCKSTEP_API EvaluationOrder {
 public:
  /// Throws `Options`.
  EvaluationOrder(std::int64_t set_size, const EvaluationOrderOptions& options);

  std::int64_t batch_size() const noexcept { return options_.batch_size; }
  std::int64_t replicas() const noexcept { return options_.replicas; }
  std::uint64_t seed() const noexcept { return options_.seed; }
  std::int64_t samples() const noexcept { return subset_.size(); }
  std::int64_t batches() const noexcept;
  /// Samples of the largest batch.
  std::int64_t most_samples() const noexcept {
    return std::min(options_.batch_size, subset_.size());
  }
  /// How many of the batches fall to replicas [first, first + count).
  std::int64_t batches_of(std::int64_t first_replica, std::int64_t count) const noexcept;
  /// The n-th of those, in ascending order.
  std::int64_t batch_of(std::int64_t first_replica, std::int64_t count,
                        std::int64_t n) const noexcept;

  /// Samples of batch j: B, or fewer in the last one.
  std::int64_t size_of(std::int64_t batch) const noexcept;
  /// The i-th sample of batch j.
  std::int64_t sample_of(std::int64_t batch, std::int64_t i) const noexcept {
    return subset_[batch * options_.batch_size + i];
  }

 private:
  EvaluationOrderOptions options_;
  Subset subset_;
};

}  // namespace lockstep::data

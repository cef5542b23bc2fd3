#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "lockstep/base/export.h"
#include "lockstep/data/sampling/sample_order.h"
#include "lockstep/topology/job_shape.h"

namespace lockstep::data {

/// Which part of an epoch a batch is.
struct BatchPlace {
  std::int64_t epoch = 0;
  std::int64_t number = 0;       ///< how many batches of this loader come before it in the epoch
  std::int64_t step = 0;         ///< training: the (first) optimizer step
  std::int64_t replica = 0;      ///< the (first) replica
  std::int64_t micro_batch = 0;  ///< training: the (first) micro-batch of the step
  std::int64_t batch = 0;        ///< evaluation: its index j among those of the whole job

  bool operator==(const BatchPlace&) const = default;
};

/// What a loader delivers, batch after batch: a pure function, asked by several threads at once.
/// One of your own makes any order of samples possible.
class LOCKSTEP_API BatchPlan {
 public:
  virtual ~BatchPlan() = default;

  /// Random decisions about samples draw from it.
  virtual std::uint64_t seed() const = 0;
  virtual std::int64_t batches_per_epoch() const = 0;
  virtual std::int64_t samples_per_batch() const = 0;  ///< the most that a batch has

  virtual BatchPlace place(std::int64_t epoch, std::int64_t number) const = 0;
  /// Samples in a batch.
  virtual std::int64_t size(const BatchPlace& place) const = 0;
  /// Writes samples `first` and those behind it, as many as `out` holds.
  virtual void samples(const BatchPlace& place, std::int64_t first,
                       std::span<std::int64_t> out) const = 0;
};

using BatchPlanPtr = std::shared_ptr<const BatchPlan>;

/// One micro-batch of one local replica at a time. Replicas that run side by side are served in
/// turn, and the next ones when those have all micro-batches of the step: by step, then
/// `side_by_side` neighbours (0: all), then micro-batch, then replica.
LOCKSTEP_API BatchPlanPtr micro_batches(const TrainOrder& order, topology::ReplicaRange local,
                                        int side_by_side = 0);

/// A whole iteration at a time, of the local replicas: [D][local replicas][G][B] samples.
LOCKSTEP_API BatchPlanPtr iterations(const TrainOrder& order, topology::ReplicaRange local);

/// The batches of an evaluation that fall to the local replicas.
LOCKSTEP_API BatchPlanPtr evaluation_batches(const EvaluationOrder& order,
                                             topology::ReplicaRange local);

}  // namespace lockstep::data

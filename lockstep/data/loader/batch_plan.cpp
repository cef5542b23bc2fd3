#include "lockstep/data/loader/batch_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::data {
namespace {

void check(topology::ReplicaRange local, std::int64_t replicas) {
  if (local.first >= 0 && local.count >= 1 && local.first + local.count <= replicas) return;
  throw Error(ErrorKind::Options,
              fmt::format("loader: expected local replicas among 0 to {}, found {} beginning at {}",
                          replicas - 1, local.count, local.first));
}

/// What both plans of a training job have in common.
class TrainPlan : public BatchPlan {
 public:
  TrainPlan(const TrainOrder& order, topology::ReplicaRange local) : order_(order), local_(local) {
    check(local, order.shape().replicas);
  }
  std::uint64_t seed() const override { return order_.seed(); }
  std::int64_t size(const BatchPlace& /*place*/) const override { return samples_per_batch(); }

 protected:
  const TrainOrder& order() const { return order_; }
  const BatchShape& shape() const { return order_.shape(); }
  topology::ReplicaRange local() const { return local_; }

 private:
  TrainOrder order_;
  topology::ReplicaRange local_;
};

class MicroBatches final : public TrainPlan {
 public:
  MicroBatches(const TrainOrder& order, topology::ReplicaRange local, int side_by_side)
      : TrainPlan(order, local), side_by_side_(side_by_side == 0 ? local.count : side_by_side) {
    if (side_by_side_ >= 1) return;
    throw Error(
        ErrorKind::Options,
        fmt::format("loader: expected at least one replica at a time, found {}", side_by_side_));
  }

  std::int64_t batches_per_epoch() const override {
    return order().steps_per_epoch() * batches_per_step();
  }
  std::int64_t samples_per_batch() const override { return shape().batch_size; }

  BatchPlace place(std::int64_t epoch, std::int64_t number) const override {
    const auto within = number % batches_per_step();
    const auto first = within / (side_by_side_ * shape().gradient_accumulation) * side_by_side_;
    const auto neighbours = std::min(side_by_side_, local().count - first);
    const auto turn = within - first * shape().gradient_accumulation;
    return {.epoch = epoch,
            .number = number,
            .step = number / batches_per_step(),
            .replica = local().first + first + turn % neighbours,
            .micro_batch = turn / neighbours};
  }

  void samples(const BatchPlace& place, std::int64_t first,
               std::span<std::int64_t> out) const override {
    const auto begin =
        order().begin_of({place.epoch, place.step, place.replica, place.micro_batch});
    order().samples_at(place.epoch, begin + first, out);
  }

 private:
  std::int64_t batches_per_step() const { return shape().gradient_accumulation * local().count; }

  std::int64_t side_by_side_;
};

class Iterations final : public TrainPlan {
 public:
  using TrainPlan::TrainPlan;

  std::int64_t batches_per_epoch() const override { return order().iterations_per_epoch(); }
  std::int64_t samples_per_batch() const override {
    return samples_per_local_step() * shape().device_iterations;
  }

  BatchPlace place(std::int64_t epoch, std::int64_t number) const override {
    return {.epoch = epoch,
            .number = number,
            .step = number * shape().device_iterations,
            .replica = local().first};
  }

  /// The local samples of one step are neighbours in the epoch's order; those of the next step
  /// come after the samples of all other replicas.
  void samples(const BatchPlace& place, std::int64_t first,
               std::span<std::int64_t> out) const override {
    while (!out.empty()) {
      const auto step = first / samples_per_local_step();
      const auto within = first % samples_per_local_step();
      const auto count = std::min<std::int64_t>(std::ssize(out), samples_per_local_step() - within);
      const auto begin = order().begin_of({place.epoch, place.step + step, place.replica, 0});
      order().samples_at(place.epoch, begin + within, out.first(static_cast<std::size_t>(count)));
      out = out.subspan(static_cast<std::size_t>(count));
      first += count;
    }
  }

 private:
  std::int64_t samples_per_local_step() const {
    return shape().samples_per_replica_step() * local().count;
  }
};

class EvaluationBatches final : public BatchPlan {
 public:
  EvaluationBatches(const EvaluationOrder& order, topology::ReplicaRange local)
      : order_(order), local_(local) {
    check(local, order.replicas());
  }

  std::uint64_t seed() const override { return order_.seed(); }
  std::int64_t batches_per_epoch() const override {
    return order_.batches_of(local_.first, local_.count);
  }
  std::int64_t samples_per_batch() const override { return order_.most_samples(); }

  BatchPlace place(std::int64_t epoch, std::int64_t number) const override {
    return {.epoch = epoch,
            .number = number,
            .replica = local_.first + number % local_.count,
            .batch = order_.batch_of(local_.first, local_.count, number)};
  }
  std::int64_t size(const BatchPlace& place) const override { return order_.size_of(place.batch); }
  void samples(const BatchPlace& place, std::int64_t first,
               std::span<std::int64_t> out) const override {
    for (auto& sample : out) sample = order_.sample_of(place.batch, first++);
  }

 private:
  EvaluationOrder order_;
  topology::ReplicaRange local_;
};

}  // namespace

BatchPlanPtr micro_batches(const TrainOrder& order, topology::ReplicaRange local,
                           int side_by_side) {
  return std::make_shared<MicroBatches>(order, local, side_by_side);
}

BatchPlanPtr iterations(const TrainOrder& order, topology::ReplicaRange local) {
  return std::make_shared<Iterations>(order, local);
}

BatchPlanPtr evaluation_batches(const EvaluationOrder& order, topology::ReplicaRange local) {
  return std::make_shared<EvaluationBatches>(order, local);
}

}  // namespace lockstep::data

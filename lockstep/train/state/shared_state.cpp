#include "lockstep/train/state/shared_state.h"

#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/train/state/weight_update.h"

namespace lockstep::train {

comm::ShardedUpdate::Shape shape_of_update(const WeightLayout& weights, const StateShape& shape,
                                           const LeafTotals& totals, int leaves) {
  return {.count = weights.num_elements,
          .num_totals = static_cast<std::int64_t>(totals.count()),
          .num_leaves = leaves,
          .blocks = weights.blocks,
          .values_per_block = WeightUpdate::kValuesPerBlock,
          .num_early = weights.num_parameters,
          .state_bytes = shape.bytes(),
          .common_bytes = CommonShape(weights).bytes()};
}

namespace {

comm::ShardedUpdate::Shape fingerprinted(comm::ShardedUpdate::Shape shape,
                                         std::uint64_t fingerprint) {
  shape.fingerprint = fingerprint;
  return shape;
}

}  // namespace

SharedState::SharedState(comm::Communicator& communicator, WeightLayout weights,
                         const StateSizes& sizes, std::uint64_t fingerprint)
    : weights_(std::move(weights)),
      shape_(weights_, sizes.num_states, sizes.has_average),
      common_(weights_),
      totals_(weights_, sizes.replicas, sizes.metrics),
      is_first_(communicator.is_leader()),
      rank_(communicator.rank()),
      num_kept_(sizes.num_states + (sizes.has_average ? 1 : 0)),
      sum_(communicator,
           fingerprinted(shape_of_update(weights_, shape_, totals_, sizes.local_leaves),
                         fingerprint),
           "weights") {}

void SharedState::publish(const std::function<void(std::byte*, float*)>& write) {
  if (rank_ == 0) write(sum_.next_state(), frozen());
  sum_.publish();
}

MemoryUse SharedState::memory() const noexcept {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(float));
  return {.weights = kBytes * (weights_.num_elements + weights_.num_frozen),
          .optimizer = kBytes * weights_.num_parameters * num_kept_,
          .shared = static_cast<std::int64_t>(sum_.memory_bytes())};
}

const float* weights_in(const StateShape& shape, const std::byte* state, WeightsKind kind) {
  if (kind == WeightsKind::Trained) return shape.weights(state).data();
  if (shape.has_average()) return shape.average(state).data();
  throw Error(ErrorKind::Options, "TrainingModel: no average of the weights is kept",
              "AdamW({...}).average_weights(0.999)");
}

}  // namespace lockstep::train

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "lockstep/comm/sharded_update.h"
#include "lockstep/train/api/evaluation.h"
#include "lockstep/train/api/statistics.h"
#include "lockstep/train/state/state_layout.h"

namespace lockstep::train {

/// The sizes of a `SharedState` that do not follow from the weights.
struct StateSizes {
  int num_states = 0;  ///< numbers that the optimizer keeps for each element
  bool has_average = false;
  int replicas = 1;      ///< of the job
  int local_leaves = 1;  ///< replicas of this instance
  std::size_t metrics = 0;
};

/// The state of a training, which the instances of a host share: weights, optimizer state, counts
/// and progress in two versions, one commit word, and the memory that both versions share (frozen
/// parameters, finished epochs).
///
/// The state survives a crash: see `comm::ShardedUpdate`. Every instance makes the same calls in
/// the same order, on one thread at a time.
class SharedState {
 public:
  /// `fingerprint` identifies the model and the options. A version that an earlier attempt of the
  /// job has left is used only if its fingerprint is equal.
  SharedState(comm::Communicator& communicator, WeightLayout weights, const StateSizes& sizes,
              std::uint64_t fingerprint);
  SharedState(const SharedState&) = delete;
  SharedState& operator=(const SharedState&) = delete;

  const WeightLayout& weights() const noexcept { return weights_; }
  const StateShape& shape() const noexcept { return shape_; }
  const LeafTotals& totals() const noexcept { return totals_; }

  /// Sums the leaves of a step, and commits the next version.
  comm::ShardedUpdate& sum() noexcept { return sum_; }

  bool is_recovered() const noexcept { return sum_.is_recovered(); }
  std::uint64_t version() const noexcept { return sum_.version(); }
  const std::byte* current() const noexcept { return sum_.state(); }
  const Progress& progress() const { return shape_.progress(current()); }
  float* frozen() const noexcept { return CommonShape::frozen(sum_.common()); }

  /// Calls `write` on rank 0 for the state and the frozen parameters. Then makes this version
  /// current on all instances.
  void publish(const std::function<void(std::byte* state, float* frozen)>& write);

  /// Numbers that are kept with the state and are not part of a version. Only the first instance of
  /// each host writes them.
  std::int64_t finished_epochs() const noexcept { return numbers().finished_epochs.load(); }
  void keep_finished_epochs(std::int64_t epochs) noexcept {
    if (is_first_) numbers().finished_epochs.store(epochs);
  }
  std::uint64_t loader_print() const noexcept { return numbers().loader_print.load(); }
  void keep_loader_print(std::uint64_t print) noexcept {
    if (is_first_) numbers().loader_print.store(print);
  }

  MemoryUse memory() const noexcept;

 private:
  KeptNumbers& numbers() const noexcept { return common_.numbers(sum_.common()); }

  const WeightLayout weights_;
  const StateShape shape_;
  const CommonShape common_;
  const LeafTotals totals_;
  const bool is_first_;  ///< of the instances of its host
  const int rank_;
  const int num_kept_;  ///< numbers for each element beside the weight
  comm::ShardedUpdate sum_;
};

/// The shape of the sum that updates a state.
comm::ShardedUpdate::Shape shape_of_update(const WeightLayout& weights, const StateShape& shape,
                                           const LeafTotals& totals, int leaves);

/// The weights of a version. Errors: `Options` for an average that the optimizer does not keep.
const float* weights_in(const StateShape& shape, const std::byte* state, WeightsKind kind);

}  // namespace lockstep::train

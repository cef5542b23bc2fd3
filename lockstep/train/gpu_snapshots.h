#pragma once

#include "lockstep/comm/sharded_update.h"
#include "lockstep/train/gpu_training.h"
#include "lockstep/train/train_state.h"

namespace lockstep::train {

/// Versions of a state that lives on a GPU, on their way to the memory that outlives this process.
///
///     begun       written in the background, where the version before the current one stands
///     there       noticed by `commit_arrived` or `finish`, and current from then on
///
/// Whoever dies on the way leaves the current version whole. One thread at a time; nobody else may
/// have a part in the state.
class GpuSnapshots {
 public:
  GpuSnapshots(GpuTraining& gpu, comm::ShardedUpdate& updates, const StateShape& shape)
      : gpu_(gpu), updates_(updates), shape_(shape) {}

  bool is_under_way() const noexcept { return is_under_way_; }
  /// Of the state as it is when all that was launched is done; `progress` belongs to it. None may
  /// be under way.
  void begin(const Progress& progress);
  /// Makes it current if it is there.
  void commit_arrived();
  /// Makes it current when it is there.
  void finish();

 private:
  void commit();

  GpuTraining& gpu_;
  comm::ShardedUpdate& updates_;
  const StateShape& shape_;
  Progress progress_;
  bool is_under_way_ = false;
};

}  // namespace lockstep::train

#pragma once

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/sharded_update.h"
#include "lockstep/train/gpu_training.h"
#include "lockstep/train/train_state.h"

namespace lockstep::train {

/// Versions of a state that lives on GPUs, on their way to the memory that outlives this process.
///
///     begun       written in the background, where the version before the current one stands
///     there       noticed by `commit_arrived` or `finish`, and current from then on
///
/// Whoever dies on the way leaves the current version whole. Where several instances have the same
/// state, the first one's is kept; all make the same calls. One thread at a time.
class GpuSnapshots {
 public:
  GpuSnapshots(GpuTraining& gpu, comm::Communicator& communicator, comm::ShardedUpdate& updates,
               const StateShape& shape)
      : gpu_(gpu), communicator_(communicator), updates_(updates), shape_(shape) {}

  bool is_under_way() const noexcept { return is_under_way_; }
  /// Of the state as it is when all that was launched is done; `progress` belongs to it. None may
  /// be under way.
  void begin(const Progress& progress);
  /// Makes it current if it is there.
  void commit_arrived();
  /// Makes it current when it is there.
  void finish();

 private:
  bool is_first() const noexcept { return communicator_.rank() == 0; }
  void commit();

  GpuTraining& gpu_;
  comm::Communicator& communicator_;
  comm::ShardedUpdate& updates_;
  const StateShape& shape_;
  Progress progress_;
  bool is_under_way_ = false;
};

}  // namespace lockstep::train

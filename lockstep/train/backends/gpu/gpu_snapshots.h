#pragma once

#include "lockstep/comm/communicator.h"
#include "lockstep/train/backends/gpu/gpu_training.h"
#include "lockstep/train/state/shared_state.h"

namespace lockstep::train {

/// Downloads versions of a state that lives on GPUs into the shared state of the host, which
/// survives a crash.
///
/// A snapshot is downloaded in the background to the place of the next version, and becomes current
/// when it has arrived. If the process dies before, the current version is intact. If several
/// instances have the same state, instance 0 downloads it. All instances make the same calls, on
/// one thread at a time.
class GpuSnapshots {
 public:
  GpuSnapshots(GpuTraining& gpu, comm::Communicator& communicator, SharedState& state)
      : gpu_(gpu), communicator_(communicator), state_(state) {}

  bool is_under_way() const noexcept { return is_under_way_; }
  /// Begins to download the state as it is after all launched work. `progress` is the progress of
  /// that state. Only one download may run at a time.
  void begin(const Progress& progress);
  /// Commits the snapshot if it has arrived.
  void commit_arrived();
  /// Waits for the snapshot, and commits it.
  void finish();

 private:
  bool is_first() const noexcept { return communicator_.rank() == 0; }
  void commit();

  GpuTraining& gpu_;
  comm::Communicator& communicator_;
  SharedState& state_;
  Progress progress_;
  bool is_under_way_ = false;
};

}  // namespace lockstep::train

#pragma once

#include <cstdint>

namespace lockstep::train {

/// The operations of a training step. `run_step` calls them; a backend is a class that implements
/// them for one kind of device.
///
/// A backend either executes an operation when it is called (`CpuBackend`, `HostSumGpuBackend`), or
/// adds the operation to a recording of D steps, which it launches later (`ResidentGpuBackend`).
/// Therefore no operation returns a value. A recording backend checks and reports the steps when
/// the launch has finished.
///
/// `index` is the position of the step in the recording, from 0 to D-1, and 0 if the backend does
/// not record. A recorded operation must not depend on the step number, the learning rate or the
/// number of updates. It reads them from tables on the device, at this index. The backend fills the
/// tables before each launch.
///
/// How a backend for several GPUs that exchange slices would fit:
///
///     compute_leaves     every GPU runs its replicas and adds their leaves, as on one GPU
///     reduce             every GPU receives the nodes of its slice from the other GPUs, and adds
///                        them along the tree; the totals are reduced on all GPUs
///     measure_…, decide  every GPU measures its slice; the measured values are all-gathered, so
///                        that all GPUs decide the same
///     update             every GPU updates its slice of the state
///     commit             the slices of the new weights are all-gathered
///
/// Its slices are `comm::ShardedUpdate::slice_of`, as between the instances of a host.
class StepBackend {
 public:
  virtual ~StepBackend() = default;

  /// Runs forward and backward for the G micro-batches of each local replica. Each replica yields
  /// one leaf: gradients, buffers, its loss and its metrics.
  virtual void compute_leaves(std::int64_t index) = 0;
  /// Adds the leaves of all replicas of the job along the fixed tree. Every instance gets the
  /// totals.
  virtual void reduce(std::int64_t index) = 0;
  /// Throws if a loss is not finite, or if integer buffers differ between replicas.
  virtual void check(std::int64_t index) = 0;
  /// Measures the summed gradient in fixed blocks: squares, and numbers that are not finite.
  virtual void measure_gradients(std::int64_t index) = 0;
  /// Decides from the measured numbers whether the step is skipped, and by how much gradients are
  /// clipped.
  virtual void decide(std::int64_t index) = 0;
  /// Measures weights and directions in fixed blocks, and decides LAMB's trust ratios.
  virtual void measure_trust(std::int64_t index) = 0;
  /// Writes the next version of all weights, optimizer states, averages and buffers.
  virtual void update(std::int64_t index) = 0;
  /// Makes the next version and its progress current.
  virtual void commit(std::int64_t index) = 0;
  /// Reports the loss and the metrics of the step.
  virtual void report(std::int64_t index) = 0;
};

}  // namespace lockstep::train

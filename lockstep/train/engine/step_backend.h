#pragma once

#include <cstdint>

namespace lockstep::train {

/// The operations of a training step, for one kind of device. `run_step` calls them in order.
///
///     HostBackend  implements them for CpuBackend and HostSumGpuBackend, which differ only in
///                  `compute_leaves`. It executes an operation when it is called.
///     GpuSteps     (backends/gpu/cuda) implements them for ResidentGpuBackend. `GpuSteps::launch`
///                  calls `run_step` for each step of a launch, and records the operations.
///
/// Therefore no operation returns a value.
///
///     operation           HostBackend                           GpuSteps
///     ------------------  ------------------------------------  -------------------------------
///     compute_leaves      device threads or a GPU compute the   the GPU computes each leaf, and
///                         leaves, and add each to those of      adds it to the nodes of the
///                         this instance                         tree
///     reduce              waits for the leaves of all           NCCL exchanges the nodes if
///                         instances and adds their totals; on   there are several GPUs
///                         one host, a block of elements is
///                         added when an operation reaches it
///     check               losses and integer buffers            the host checks the losses after
///                                                               the launch
///     measure_gradients,  each instance measures its slice,     each GPU measures the whole sum
///     measure_trust       and reads the values of all
///     decide              `StepRules` on the host               `StepRules` in a kernel
///     update              each instance writes its slice of     each GPU updates its whole
///                         the next version                      state in place
///     commit              one word makes the next version       counts updates, sets the loss
///                         current                               scale; the host gets versions with
///                                                               snapshots
///     report              the result of the step                the host reports after the launch
///
/// `index` is the position of the step in its launch, and 0 for `HostBackend`. A launch has at most
/// min(D, `Options::steps_at_once`) steps. A recorded operation must not depend on the step number,
/// the learning rate or the number of updates. It reads them from tables on the device, at this
/// index. The tables are filled before each launch.
///
/// A backend for several GPUs that exchange slices would fit in as follows. Its slices are those of
/// `comm::ShardedUpdate::slice_of`, as between the instances of a host.
///
///     compute_leaves      every GPU computes its replicas and adds their leaves, as on one GPU
///     reduce              every GPU receives the nodes of its slice from the other GPUs, and adds
///                         them along the tree; the totals are added on all GPUs
///     measure_…, decide   every GPU measures its slice; an all-gather shares the measured values,
///                         so that all GPUs make the same decision
///     update              every GPU updates its slice of the state
///     commit              an all-gather shares the slices of the new weights
class StepBackend {
 public:
  virtual ~StepBackend() = default;

  /// Runs forward and backward for the G micro-batches of each local replica. A leaf has the
  /// gradients, the buffers, the loss and the metrics of one replica. On a GPU, one pass may
  /// compute several replicas; then a leaf is their sum.
  virtual void compute_leaves(std::int64_t index) = 0;
  /// Completes the sum of the leaves of all replicas of the job along the fixed tree. Every
  /// instance gets the totals. With `--reduction-order fast`, NCCL chooses the order.
  virtual void reduce(std::int64_t index) = 0;
  /// Throws if a loss is not finite and loss scaling cannot skip the step. `HostBackend` also
  /// throws if integer buffers differ between replicas.
  virtual void check(std::int64_t index) = 0;
  /// Measures the summed gradient in fixed blocks: squares, and numbers that are not finite.
  virtual void measure_gradients(std::int64_t index) = 0;
  /// Decides from the measured numbers whether the step is skipped, and by how much gradients are
  /// clipped.
  virtual void decide(std::int64_t index) = 0;
  /// Measures weights and directions in fixed blocks, and decides LAMB's trust ratios.
  virtual void measure_trust(std::int64_t index) = 0;
  /// Computes the next weights, optimizer states, averages and buffers.
  virtual void update(std::int64_t index) = 0;
  /// Completes the step: the new state and its progress are current.
  virtual void commit(std::int64_t index) = 0;
  /// Reports the loss and the metrics of the step.
  virtual void report(std::int64_t index) = 0;
};

}  // namespace lockstep::train

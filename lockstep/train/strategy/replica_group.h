#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "lockstep/comm/buffer.h"
#include "lockstep/comm/reduce_op.h"
#include "lockstep/nn/random/random_scope.h"
#include "lockstep/train/api/options.h"
#include "lockstep/train/backends/device_threads.h"
#include "lockstep/train/planner/job_layout.h"
#include "lockstep/train/strategy/mirrored.h"

namespace lockstep::train {

/// The replicas of this instance, on which a strategy runs functions, and their place among all
/// replicas of the job.
///
/// Every instance makes the same calls in the same order, on one thread at a time. An error is
/// reported to the other instances, so that they do not wait. After it only destruction is allowed.
class ReplicaGroup {
 public:
  /// Copies the options. If no launcher has set the threads per device, the instances agree on
  /// them. Errors: `Unavailable` for a GPU.
  explicit ReplicaGroup(const Options& options);

  const Options& options() const noexcept { return options_; }
  int num_replicas() const noexcept { return layout_.replicas; }
  const topology::ReplicaRange& local() const noexcept { return layout_.local; }

  /// Runs `work` for each local replica, in parallel on different devices. Random numbers are a
  /// function of the seed, the replica and the number of the call.
  void run(const std::function<void(const ReplicaContext&)>& work);

  /// Runs `work` once, with the threads of one device, because bits may depend on their number. The
  /// caller handles its errors with `guarded`.
  void run_alone(const std::function<void()>& work);

  /// Combines the leaves of the local replicas, in order, with those of all other replicas, along
  /// the tree over replicas.
  void reduce(std::span<const comm::ConstBuffer> leaves, const comm::Buffer& result,
              comm::ReduceOp op);

  /// Sends the buffer of instance 0 to all instances.
  void broadcast(const comm::Buffer& buffer);

  /// The random key for the constructors of the next module. Runs and other modules use other keys.
  nn::DrawKey next_module_key() noexcept;

  /// Runs `action`, and reports its error to the other instances. An error of libtorch becomes an
  /// `Error` that begins with `where`.
  void guarded(const char* where, const std::function<void()>& action);

 private:
  Options options_;
  JobLayout layout_;
  DeviceThreads threads_;
  std::uint64_t runs_ = 0;
  std::uint32_t modules_ = 0;
};

/// Throws `Options`, beginning with `where`, unless a collective can combine the tensor: it must
/// have numbers in the memory of the host.
void check_numbers(const char* where, const at::Tensor& tensor);

/// Throws `Options`, beginning with `where`, for a mean of integers, which would be rounded.
void check_mean(const char* where, comm::ReduceOp op, DataType type);

/// Combines one tensor of each local replica with those of all other replicas. The caller handles
/// errors with `ReplicaGroup::guarded`. Errors: `Options` for different types or shapes.
at::Tensor reduce_tensors(const char* where, ReplicaGroup& group, comm::ReduceOp op,
                          const std::vector<at::Tensor>& values);

}  // namespace lockstep::train

#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "lockstep/comm/buffer.h"
#include "lockstep/comm/reduce_op.h"
#include "lockstep/nn/random/random_scope.h"
#include "lockstep/train/api/options.h"
#include "lockstep/train/backends/device_threads.h"
#include "lockstep/train/planner/job_layout.h"
#include "lockstep/train/strategy/replica_context.h"

namespace lockstep {

namespace train {

/// The replicas of this instance as something that functions are run on, and their place among all
/// of the job: what strategies are made of.
///
/// Every instance makes the same calls in the same order. One thread at a time.
///
/// Errors: what goes wrong here is told to the other instances, so that they do not wait; after it
/// only destruction is allowed.
class ReplicaGroup {
 public:
  /// Takes a copy of the options; instances that nobody told how many threads a device has meet.
  /// Errors: `Unavailable` where a GPU is asked for.
  explicit ReplicaGroup(const Options& options);

  const Options& options() const noexcept { return options_; }
  int num_replicas() const noexcept { return layout_.replicas; }
  const topology::ReplicaRange& local() const noexcept { return layout_.local; }

  /// Runs `work` for each local replica, those of different devices at the same time. What it draws
  /// at random is of the seed, the replica and the number of the call.
  void run(const std::function<void(const ReplicaContext&)>& work);

  /// Runs `work` once, with the threads of one device, whose number bits may depend on. What it
  /// throws is for `guarded`.
  void run_alone(const std::function<void()>& work);

  /// Combines what each local replica brings, in order, with all others of the job, along the tree
  /// over replicas.
  void reduce(std::span<const comm::ConstBuffer> leaves, const comm::Buffer& result,
              comm::ReduceOp op);

  /// Everybody gets what instance 0 has.
  void broadcast(const comm::Buffer& buffer);

  /// What the constructors of the next module draw from: apart from every run, and from the modules
  /// before it.
  nn::DrawKey next_module_key() noexcept;

  /// Tells the other instances of what `action` throws; what libtorch throws becomes an `Error`
  /// that `where` begins.
  void guarded(const char* where, const std::function<void()>& action);

 private:
  Options options_;
  JobLayout layout_;
  DeviceThreads threads_;
  std::uint64_t runs_ = 0;
  std::uint32_t modules_ = 0;
};

}  // namespace train
}  // namespace lockstep

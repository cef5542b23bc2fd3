#pragma once

#include <mutex>
#include <vector>

#include "lockstep/comm/sharded_update.h"
#include "lockstep/nn/gradient_hook.h"
#include "lockstep/train/backends/cpu/replica.h"

namespace lockstep::train {

/// Hands in the gradients of an instance's last replica while that goes backward for the last time
/// in a step, bucket by bucket: on several hosts they are on their way before the pass is over.
///
/// Used by the thread that goes backward, but for `mutex()`: whoever else takes leaves meanwhile
/// holds it.
class EarlyLeaf {
 public:
  EarlyLeaf(Replica& replica, comm::ShardedUpdate& updates, const WeightLayout& weights,
            const LeafTotals& totals);
  EarlyLeaf(const EarlyLeaf&) = delete;
  EarlyLeaf& operator=(const EarlyLeaf&) = delete;

  std::mutex& mutex() noexcept { return mutex_; }

  /// The last backward pass of a step: gradients that come while it lives are final.
  class Pass {
   public:
    Pass(EarlyLeaf& leaf, const Replica::LeafFormat& format) : leaf_(leaf) { leaf_.begin(format); }
    ~Pass() { leaf_.is_last_pass_ = false; }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    EarlyLeaf& leaf_;
  };

 private:
  void begin(const Replica::LeafFormat& format);
  void take(std::size_t parameter);

  Replica& replica_;
  comm::ShardedUpdate& updates_;
  const WeightLayout& weights_;
  const LeafTotals& totals_;
  std::mutex mutex_;
  bool is_last_pass_ = false;
  Replica::LeafFormat format_;
  std::vector<int> num_parameters_;  ///< that have elements in a bucket, by bucket
  std::vector<int> num_missing_;     ///< those of them that have yet to come
  std::vector<nn::GradientHook> hooks_;
};

}  // namespace lockstep::train

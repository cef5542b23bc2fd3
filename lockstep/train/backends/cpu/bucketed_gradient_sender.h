#pragma once

#include <mutex>
#include <vector>

#include "lockstep/comm/sharded_update.h"
#include "lockstep/nn/gradient_hook.h"
#include "lockstep/train/backends/replica.h"

namespace lockstep::train {

/// Sends gradients to the other hosts before the backward pass is complete: takes the leaf of the
/// last replica bucket by bucket, during its last backward pass of a step.
///
/// The thread of the backward pass uses this object. Other threads that take leaves hold `mutex()`.
class BucketedGradientSender {
 public:
  BucketedGradientSender(Replica& replica, comm::ShardedUpdate& updates,
                         const WeightLayout& weights, const LeafTotals& totals);
  BucketedGradientSender(const BucketedGradientSender&) = delete;
  BucketedGradientSender& operator=(const BucketedGradientSender&) = delete;

  std::mutex& mutex() noexcept { return mutex_; }

  /// The last backward pass of a step. Gradients that are complete during its lifetime are final.
  class Pass {
   public:
    Pass(BucketedGradientSender& sender, const Replica::LeafFormat& format) : sender_(sender) {
      sender_.begin(format);
    }
    ~Pass() { sender_.is_last_pass_ = false; }
    Pass(const Pass&) = delete;
    Pass& operator=(const Pass&) = delete;

   private:
    BucketedGradientSender& sender_;
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
  std::vector<int> num_parameters_;  ///< with elements in a bucket, by bucket
  std::vector<int> num_missing_;     ///< of these, without a gradient so far
  std::vector<nn::GradientHook> hooks_;
};

}  // namespace lockstep::train

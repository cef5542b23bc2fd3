#include "lockstep/train/backends/cpu/bucketed_gradient_sender.h"

#include <fmt/format.h>
#include <torch/types.h>

#include "lockstep/base/error.h"

namespace lockstep::train {
namespace {

bool overlaps(const PlacedTensor& placed, const comm::hosts::Bucket& bucket) {
  return placed.first < bucket.first + bucket.count && bucket.first < placed.first + placed.count;
}

}  // namespace

BucketedGradientSender::BucketedGradientSender(Replica& replica, comm::ShardedUpdate& updates,
                                               const WeightLayout& weights,
                                               const LeafTotals& totals)
    : replica_(replica), updates_(updates), weights_(weights), totals_(totals) {
  for (const auto& bucket : updates_.early_buckets()) {
    num_parameters_.push_back(0);
    for (const auto& parameter : weights_.parameters) {
      num_parameters_.back() += overlaps(parameter, bucket) ? 1 : 0;
    }
  }
  for (std::size_t i = 0; i < weights_.parameters.size(); ++i) {
    // A parameter that is used in several places has its gradient only at the end of the pass.
    const auto& tensors = replica_.slots()[weights_.parameters[i].slot].tensors;
    if (tensors.size() == 1) hooks_.emplace_back(tensors.front(), [this, i] { take(i); });
  }
}

void BucketedGradientSender::begin(const Replica::LeafFormat& format) {
  format_ = format;
  num_missing_ = num_parameters_;
  is_last_pass_ = true;
}

void BucketedGradientSender::take(std::size_t parameter) {
  if (!is_last_pass_) return;
  const std::lock_guard lock(mutex_);
  if (!updates_.is_at_last_leaf()) return;  // an earlier replica is missing
  if (replica_.is_written(parameter)) {
    throw Error(ErrorKind::Options,
                fmt::format("model: the gradient of '{}' is added to twice in one backward pass",
                            weights_.parameters[parameter].name),
                "--overlap off, which waits for the end of the pass");
  }
  const torch::NoGradGuard no_grad;
  const auto count = static_cast<std::size_t>(weights_.num_elements) + totals_.count();
  replica_.write_parameter(parameter, {static_cast<float*>(updates_.leaf()), count}, totals_,
                           format_);
  const auto buckets = updates_.early_buckets();
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (overlaps(weights_.parameters[parameter], buckets[i])) --num_missing_[i];
  }
  while (updates_.num_taken_early() < buckets.size() &&
         num_missing_[updates_.num_taken_early()] == 0) {
    updates_.take_early();
  }
}

}  // namespace lockstep::train

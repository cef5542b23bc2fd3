#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/data/loader/loader.h"
#include "lockstep/topology/placement.h"

namespace lockstep::train {

/// Hands the batches of a loader to the replicas that they are for. Whoever computes a replica asks
/// for its next one; who finds none takes batches from the loader, also those of others, until one
/// is its own.
///
/// Any thread may ask, one for each replica. So nobody has to stand between loader and devices, and
/// who is ahead waits only while every buffer is held.
class BatchSource {
 public:
  BatchSource(data::Loader& loader, topology::ReplicaRange replicas);

  /// Nothing at the end of the epoch. `spans` is told of what the caller's thread fills meanwhile.
  /// Errors: those of `data::Loader::next`.
  std::optional<data::Batch> next(int replica, events::SpanSink* spans = nullptr);

  /// Somebody will not come for its batches: their memory is the loader's again, so that nobody
  /// waits for it. What `next` gives from then on is some later batch.
  void give_up();

 private:
  std::optional<data::Batch> ask_loader(std::unique_lock<std::mutex>& lock,
                                        events::SpanSink* spans);

  std::deque<data::Batch>& waiting_for(std::int64_t replica) {
    return waiting_[static_cast<std::size_t>(replica - replicas_.first)];
  }

  data::Loader& loader_;
  topology::ReplicaRange replicas_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_asked_ = false;  ///< somebody is at the loader, and may wait there
  bool has_given_up_ = false;
  std::vector<std::deque<data::Batch>> waiting_;  ///< by replica
};

}  // namespace lockstep::train

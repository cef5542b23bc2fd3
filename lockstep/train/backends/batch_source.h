#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

#include "lockstep/data/loader/loader.h"
#include "lockstep/topology/placement.h"

namespace lockstep::train {

/// Distributes the batches of a loader to their replicas. A thread that computes a replica calls
/// `next`. If no batch of this replica is waiting, the thread takes batches from the loader, also
/// those of other replicas, until it finds its own.
///
/// Any thread may call `next`, one for each replica. No extra thread is needed between loader and
/// devices, and a replica that is ahead waits only if all buffers are held.
class BatchSource {
 public:
  BatchSource(data::Loader& loader, topology::ReplicaRange replicas);

  /// Returns nullopt at the end of the epoch. `spans` receives the work of the loader on this
  /// thread. Errors: those of `data::Loader::next`.
  std::optional<data::Batch> next(int replica, events::SpanSink* spans = nullptr);

  /// Releases all waiting batches, because a replica has failed and does not take its batches. The
  /// loader can then continue for other threads. Later results of `next` skip batches.
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
  bool is_asked_ = false;  ///< a thread calls the loader, and may wait there
  bool has_given_up_ = false;
  std::vector<std::deque<data::Batch>> waiting_;  ///< by replica
};

}  // namespace lockstep::train

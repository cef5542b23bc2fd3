#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/leaf_layout.h"

namespace lockstep::comm::hosts {

/// Some elements of a leaf, in a row, that are added up at once.
struct Bucket {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

/// Cuts a leaf of `count` elements into buckets, in the order in which they are handed in: elements
/// before `num_early` from behind, since a backward pass begins with the last layer; then the rest.
std::vector<Bucket> cut_into_buckets(std::int64_t num_early, std::int64_t count);

/// The sums of leaves that several hosts bring, made while later buckets are still computed.
///
/// Each instance folds its leaves into nodes in memory of the host, and hands in one bucket of all
/// of them after another. When all instances of the host have handed one in, the leader folds the
/// host's nodes further and exchanges them with the other hosts, on threads of its own: the sum of
/// each bucket crosses the network once for each host, and two buckets are under way at a time, so
/// that one fills the line while the other waits for an answer.
///
/// On leaders `wait` returns when the sums of a step are there, or throws what went wrong; the
/// others learn of it when they next meet the leader.
class LOCKSTEP_PRIVATE_API HostSums {
 public:
  /// The memory that the instances of the host share of it.
  struct Memory {
    std::vector<std::vector<float*>> nodes;  ///< by rank on this host: where its nodes stand
    std::atomic<std::uint64_t>* handed_in = nullptr;  ///< for each bucket: how often, in all
    float* sum = nullptr;
  };

  /// Every instance of the group makes it alike; `layout` is that of the leaves of all of them.
  HostSums(Communicator& communicator, const LeafLayout& layout, std::vector<Bucket> buckets,
           const Memory& memory);
  ~HostSums();
  HostSums(const HostSums&) = delete;
  HostSums& operator=(const HostSums&) = delete;

  std::span<const Bucket> buckets() const noexcept { return buckets_; }

  /// All leaves of this instance are folded in this bucket. Each bucket once for each step.
  void hand_in(std::size_t bucket);
  /// For the leader: returns when all buckets that were handed in are summed.
  void wait();

 private:
  /// A node that this host hands on, and the nodes of its instances that make it up.
  struct HostNode {
    TreeNode node;
    std::vector<float*> parts;
    ReductionTree tree;
  };

  void add_nodes(const LeafLayout& layout, std::span<const int> ranks, const Memory& memory);
  void serve(std::size_t lane);
  bool wait_until_handed_in(std::size_t bucket, std::uint64_t step);
  void sum(std::size_t bucket, Communicator& lane);
  std::uint64_t steps_handed_in(std::size_t bucket) const noexcept;

  std::vector<Bucket> buckets_;
  std::atomic<std::uint64_t>* handed_in_;
  float* sum_;
  int num_local_;
  int num_leaves_;
  std::vector<HostNode> nodes_;  ///< of this host, ascending

  std::vector<Communicator*> lanes_;  ///< leaders only: one for each thread
  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t num_summed_ = 0;       ///< buckets, of all steps
  std::uint64_t num_of_this_one_ = 0;  ///< buckets that this instance has handed in
  bool is_ending_ = false;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

}  // namespace lockstep::comm::hosts

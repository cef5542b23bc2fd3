#include "lockstep/comm/hosts/host_sums.h"

#include <algorithm>

#include "lockstep/base/error.h"

namespace lockstep::comm::hosts {
namespace {

constexpr std::size_t kMostLanes = 2;
/// How often a leader looks whether the others of its host have handed in what it has.
constexpr std::chrono::microseconds kPause(100);

// Small enough for the first to be on its way while most is yet to be computed, large enough for
// the way itself to matter little.
constexpr std::int64_t kMostBuckets = 8;
constexpr std::int64_t kLeastElements = std::int64_t{64} << 10;
constexpr std::int64_t kMostElements = std::int64_t{8} << 20;

/// The leaves of a host as ranges in a row, ascending.
std::vector<LeafRange> runs_of(const LeafLayout& layout, std::span<const int> ranks) {
  std::vector<LeafRange> runs;
  for (const int rank : ranks) {
    const auto range = layout.ranges[static_cast<std::size_t>(rank)];
    if (!runs.empty() && runs.back().first + runs.back().count == range.first) {
      runs.back().count += range.count;
    } else {
      runs.push_back(range);
    }
  }
  return runs;
}

std::vector<int> ranks_on_host(const Communicator& communicator) {
  std::vector<int> ranks;
  const int own = communicator.hosts()[static_cast<std::size_t>(communicator.rank())];
  for (int rank = 0; rank < communicator.size(); ++rank) {
    if (communicator.hosts()[static_cast<std::size_t>(rank)] == own) ranks.push_back(rank);
  }
  return ranks;
}

}  // namespace

std::vector<Bucket> cut_into_buckets(std::int64_t num_early, std::int64_t count) {
  const auto width =
      std::clamp((num_early + kMostBuckets - 1) / kMostBuckets, kLeastElements, kMostElements);
  std::vector<Bucket> buckets;
  for (auto end = num_early; end > 0;) {
    const auto first = std::max<std::int64_t>(0, end - width);
    buckets.push_back({first, end - first});
    end = first;
  }
  if (num_early < count) buckets.push_back({num_early, count - num_early});
  return buckets;
}

HostSums::HostSums(Communicator& communicator, const LeafLayout& layout,
                   std::vector<Bucket> buckets, const Memory& memory)
    : buckets_(std::move(buckets)),
      handed_in_(memory.handed_in),
      sum_(memory.sum),
      num_local_(communicator.on_this_host().size()),
      num_leaves_(layout.num_leaves) {
  if (!communicator.is_leader()) return;
  add_nodes(layout, ranks_on_host(communicator), memory);
  auto* lane = &communicator.leaders();
  const std::vector<int> leaders(lane->instances().begin(), lane->instances().end());
  for (std::size_t i = 0; i < std::min(kMostLanes, buckets_.size()); ++i) {
    lane = &lane->group(leaders);  // one of its own: others may use that of the leaders
    lanes_.push_back(lane);
  }
  for (std::size_t i = 0; i < lanes_.size(); ++i) threads_.emplace_back([this, i] { serve(i); });
}

/// Nobody else would end what the threads wait for.
HostSums::~HostSums() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    if (num_summed_ < num_of_this_one_ && !error_ && !lanes_.empty()) {
      lanes_.front()->report_failure(
          Error(ErrorKind::PeerLost, "the leader of a host has left in the middle of a step"));
    }
  }
  changed_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void HostSums::add_nodes(const LeafLayout& layout, std::span<const int> ranks,
                         const Memory& memory) {
  std::vector<TreeNode> all;
  std::vector<float*> data;
  for (std::size_t local = 0; local < ranks.size(); ++local) {
    const auto own = nodes_of(layout.ranges[static_cast<std::size_t>(ranks[local])]);
    all.insert(all.end(), own.begin(), own.end());
    data.insert(data.end(), memory.nodes[local].begin(), memory.nodes[local].end());
  }
  std::size_t next = 0;
  for (const auto& run : runs_of(layout, ranks)) {
    for (const auto& node : nodes_of(run)) {
      std::vector<TreeNode> shifted;
      std::vector<float*> parts;
      for (; next < all.size() && all[next].first < node.first + node.width; ++next) {
        shifted.push_back({all[next].first - node.first, all[next].width});
        parts.push_back(data[next]);
      }
      nodes_.push_back({node, std::move(parts), ReductionTree(shifted, node.width)});
    }
  }
}

void HostSums::hand_in(std::size_t bucket) {
  handed_in_[bucket].fetch_add(1, std::memory_order_acq_rel);
  if (threads_.empty()) return;
  {
    const std::lock_guard lock(mutex_);
    ++num_of_this_one_;
  }
  changed_.notify_all();
}

void HostSums::wait() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return error_ || num_summed_ == num_of_this_one_; });
  if (error_) std::rethrow_exception(error_);
}

/// Buckets go to lanes in turn, on every host alike.
void HostSums::serve(std::size_t lane) {
  try {
    for (std::uint64_t step = 1;; ++step) {
      for (auto bucket = lane; bucket < buckets_.size(); bucket += lanes_.size()) {
        if (!wait_until_handed_in(bucket, step)) return;
        sum(bucket, *lanes_[lane]);
        const std::lock_guard lock(mutex_);
        ++num_summed_;
        changed_.notify_all();
      }
    }
  } catch (...) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::current_exception();
    changed_.notify_all();
  }
}

std::uint64_t HostSums::steps_handed_in(std::size_t bucket) const noexcept {
  return handed_in_[bucket].load(std::memory_order_acquire) /
         static_cast<std::uint64_t>(num_local_);
}

/// Sleeps until the leader itself has handed it in; the others, who are about as far, have no way
/// to wake it, and are looked at now and then. Returns whether it was handed in.
bool HostSums::wait_until_handed_in(std::size_t bucket, std::uint64_t step) {
  std::unique_lock lock(mutex_);
  const auto mine = (step - 1) * buckets_.size() + bucket + 1;
  changed_.wait(lock, [&] { return is_ending_ || error_ || num_of_this_one_ >= mine; });
  while (!is_ending_ && !error_ && steps_handed_in(bucket) < step) {
    changed_.wait_for(lock, kPause);
  }
  return !is_ending_ && !error_;
}

void HostSums::sum(std::size_t bucket, Communicator& lane) {
  const auto [first, count] = buckets_[bucket];
  std::vector<TreeNode> nodes;
  std::vector<ConstBuffer> data;
  for (const auto& own : nodes_) {
    float* to = own.parts.front() + first;
    if (own.parts.size() > 1) {
      std::vector<NodeData> parts;
      for (const auto* part : own.parts) parts.push_back({part + first, DataType::F32});
      Reducer(own.tree, ReduceOp::Sum)
          .reduce(parts, static_cast<std::size_t>(count), DataType::F32, to, DataType::F32);
    }
    nodes.push_back(own.node);
    data.emplace_back(to, count, DataType::F32, "gradients");
  }
  lane.all_reduce_nodes(nodes, data, num_leaves_,
                        {sum_ + first, count, DataType::F32, "gradients"});
}

}  // namespace lockstep::comm::hosts

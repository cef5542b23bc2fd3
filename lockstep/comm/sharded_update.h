#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/hosts/host_sums.h"
#include "lockstep/comm/leaf_counter.h"
#include "lockstep/events/trace_events.h"

namespace lockstep::comm {

/// Reduces the leaves of all instances, and lets each instance of a host write one slice of the
/// next version of a shared state.
///
/// The instances of a group share a state (weights and optimizer state) in two versions. A commit
/// word says which version is current. The caller drives each step:
///
///     write_into(update.leaf());                  // once for each leaf of this instance
///     update.take_leaf();
///     update.reduce({.divisor = 64});             // waits until all leaves have arrived
///     for (auto part : update.parts()) { ... }    // writes the slice of this instance
///     update.commit();                            // waits until all slices of the host are
///     written
///
/// A part is a block of the sum. On one host, it is reduced when the loop reaches it, so that it is
/// still in the cache when the caller writes the next version of these elements. A step that
/// measures the sum before it changes anything (norms, an overflow) loops over the parts several
/// times:
///
///     update.reduce({.passes = ShardedUpdate::Passes::Several});
///     for (auto part : update.parts()) measure(part, update.values_of(part.block));
///     update.share_measured();                    // now `measured` has the values of all blocks
///     for (auto part : update.parts()) { ... }
///     update.commit();
///
/// If a process dies before the commit, the current version is intact. If the launcher keeps
/// memory across restarts, both versions and the commit word are in that memory, and the instances
/// of a restarted job continue with the current version. Totals are numbers at the end of each
/// leaf, few enough for every instance to reduce all of them: losses and counts.
///
/// On several hosts, each host has its own copy of the state. The sums of the hosts are added
/// between the hosts (`hosts::HostSums`) in buckets, which can be sent before the leaf is complete.
/// Then the instances of each host update the whole state of their host. Hosts commit separately. A
/// host can be one version ahead of another, never two, because the next step needs leaves of all
/// hosts. When a job restarts, the hosts agree on the oldest of their current versions. A host
/// whose current version this is sends it to all hosts. A host commits a version that it receives
/// only when all of it has arrived.
///
/// The slice of an instance depends on the number of instances, so no result may depend on slices.
/// Values are therefore measured for fixed blocks, and every instance reads the values of all
/// blocks in the same order.
///
/// Only one thread at a time may use this object and its communicator. Errors: those of a
/// collective. If the caller fails between `take_leaf` and `commit`, it must call
/// `Communicator::report_failure`; otherwise the other instances wait until they time out.
class LOCKSTEP_PRIVATE_API ShardedUpdate {
 public:
  /// The same on every instance, except for `num_leaves`.
  struct Shape {
    std::int64_t count = 0;              ///< elements of the sum, which is in f32
    std::int64_t num_totals = 0;         ///< numbers after the elements in each leaf
    DataType leaf_type = DataType::F32;  ///< F16, BF16 or F32
    int num_leaves = 1;                  ///< leaves of this instance in each step
    /// First element of each block, ascending from 0; empty: a block every `kBlock` elements.
    std::vector<std::int64_t> blocks{};
    int values_per_block = 1;  ///< measured values
    /// The first `num_early` elements can be taken in buckets, the last elements first, before the
    /// rest of the leaf is written. Only on several hosts, where a bucket is sent immediately.
    std::int64_t num_early = 0;
    std::size_t state_bytes = 0;  ///< bytes of one version
    /// Bytes that all versions share. There is one copy, which is kept and sent with a version.
    std::size_t common_bytes = 0;
    /// Identifies the meaning of the state. A version that an earlier attempt of the job has left
    /// is used only if its fingerprint is equal.
    std::uint64_t fingerprint = 0;
  };
  static constexpr std::int64_t kBlock = 4096;

  /// How often the caller loops over the parts of a step. With several passes the sum is stored,
  /// and the first pass reduces it.
  enum class Passes : std::uint8_t { One, Several };

  /// How a step reduces the leaves.
  struct Reduction {
    std::int64_t divisor = 1;
    std::int64_t num_divided = -1;  ///< number of divided elements, from the first; -1: all
    Passes passes = Passes::One;
    events::SpanSink* spans = nullptr;  ///< receives the waits and the reduction of this thread
    std::int64_t step = 0;              ///< number of the step in these spans
  };

  /// A block of the sum.
  struct Part {
    std::size_t block;
    std::int64_t first;    ///< index of the first element
    std::span<float> sum;  ///< sum of all leaves, divided
  };

  /// A range of parts.
  class Parts {
   public:
    struct Iterator {
      ShardedUpdate* update;
      std::size_t block;

      Part operator*() const { return update->part(block); }
      Iterator& operator++() {
        ++block;
        return *this;
      }
      bool operator==(const Iterator&) const = default;
    };

    Parts(Iterator begin, Iterator end) : begin_(begin), end_(end) {}
    Iterator begin() const noexcept { return begin_; }
    Iterator end() const noexcept { return end_; }

   private:
    Iterator begin_;
    Iterator end_;
  };

  /// Bytes that all instances of a host need together; `leaves` has the number of leaves of each.
  static std::size_t memory_needed(Shape shape, std::span<const int> leaves, int num_hosts = 1);
  /// The elements that one of `size` instances reduces and updates.
  struct Slice {
    std::int64_t first;
    std::int64_t count;
  };
  static Slice slice_of(Shape shape, int rank, int size);

  /// Every instance of the group calls the constructor. Errors: `Options` for an invalid shape, and
  /// if shapes differ.
  ShardedUpdate(Communicator& communicator, Shape shape, std::string name);

  /// Whether an earlier attempt of the job has left a version of this state.
  bool is_recovered() const noexcept { return source_ >= 0; }
  /// The host that had this version; other hosts may have received it. -1: there is none.
  int recovered_from() const noexcept { return source_; }

  /// Makes the next version current, whatever the current version is. Before the call, rank 0 has
  /// written `next_state()` and, if needed, `common()`. Every instance calls it, and it returns
  /// when all hosts have the version.
  void publish();

  /// Memory for the next leaf: `count + num_totals` elements of `leaf_type`.
  void* leaf();
  /// Takes the leaf that was written there.
  void take_leaf();

  /// The buckets of a leaf that can be taken before the whole leaf is written, in this order. Empty
  /// on one host.
  std::span<const hosts::Bucket> early_buckets() const noexcept;
  /// Takes the next early bucket.
  void take_early();
  std::size_t num_taken_early() const noexcept { return num_taken_early_; }
  /// Whether the next leaf is the last leaf of this instance in this step.
  bool is_at_last_leaf() const noexcept { return counter_.num_missing() == 1; }

  /// Waits until all leaves, and on several hosts their sums, have arrived. Computes the totals.
  /// Errors: `Options` if a leaf of this instance is missing.
  void reduce(const Reduction& reduction);
  /// The parts of this instance's slice, in ascending order. The first loop after `reduce` computes
  /// their sums: dereference each iterator once.
  Parts parts() {
    const auto [begin, end] = my_blocks();
    return {Parts::Iterator{this, begin}, Parts::Iterator{this, end}};
  }
  /// The measured values of a block of this instance: `values_per_block` numbers, zero after a
  /// `reduce` with several passes.
  std::span<double> values_of(std::size_t block);
  /// Waits until all instances have measured. Then `measured` has the values of all blocks.
  void share_measured();
  std::span<const double> measured() const noexcept;
  /// The totals of all leaves, not divided.
  std::span<const float> totals() const noexcept { return totals_; }
  /// Waits until all instances have written, and makes the next version current.
  void commit();

  /// Whether this instance writes the parts of the next version that belong to no element.
  bool is_first_on_host() const noexcept { return host_.rank() == 0; }

  /// Number of committed versions; 0: none.
  std::uint64_t version() const noexcept;
  const std::byte* state() const noexcept { return state_of(version()); }
  /// Where the next version is written. Initially its content is that of an older version.
  std::byte* next_state() const noexcept { return state_of(version() + 1); }
  /// The memory of both versions.
  std::span<std::byte> states() const noexcept;
  /// Memory shared by both versions, zeroed at creation. Except before `publish`, writers must
  /// write identical bytes on every host, and each write must be a single atomic store, so that a
  /// crash never exposes a partial write.
  std::byte* common() const noexcept;
  std::span<const std::int64_t> blocks() const noexcept { return shape_.blocks; }
  /// Bytes that all instances of the host use together: versions, and buffers for leaves.
  std::size_t memory_bytes() const noexcept { return memory_bytes_; }
  /// Seconds for which the last `reduce` waited for other hosts after this host was complete.
  double waited_for_hosts() const noexcept { return waited_for_hosts_; }

 private:
  std::vector<LeafRange> ranges_on_host(const LeafLayout& layout) const;
  void lay_out(const LeafLayout& layout);
  void agree_on_version();
  void take_version_from(int source, std::uint64_t version);
  void send_to_hosts(int source, std::uint64_t version);
  void take_elements(std::int64_t first, std::int64_t count);
  std::byte* state_of(std::uint64_t version) const noexcept;
  float* buffer(int rank, int index) const noexcept;
  /// The first block, and the one behind the last.
  std::pair<std::size_t, std::size_t> my_blocks() const;

  std::int64_t leaf_count() const noexcept { return shape_.count + shape_.num_totals; }
  void check_reduction(const Reduction& reduction) const;
  void wait_for_leaves();
  void wait_for_sums();
  std::vector<NodeData> nodes_from(std::int64_t first) const;
  std::span<float> memory_for_sum(std::size_t block);
  void reduce_totals();
  Part part(std::size_t block);

  Communicator& communicator_;
  Communicator& host_;  ///< the instances that share the memory
  Shape shape_;
  std::string name_;
  LeafCounter counter_;
  std::vector<float> totals_;
  Reduction reduction_;                     ///< of the current step
  bool is_reduced_ = false;                 ///< the parts of this step have their sums
  std::vector<float> block_sum_;            ///< the sum of one block, if there is one pass
  std::vector<std::uint16_t> narrow_leaf_;  ///< 16-bit leaves are written here
  std::size_t num_taken_early_ = 0;         ///< buckets of the next leaf

  std::size_t memory_bytes_ = 0;
  SharedMemory memory_;  ///< measured values, and buffers
  SharedMemory kept_;    ///< the commit word, both versions, and their common memory
  int source_ = -1;
  double waited_for_hosts_ = 0;
  std::atomic<std::uint64_t>* committed_ = nullptr;
  double* measured_ = nullptr;
  std::byte* states_ = nullptr;
  std::vector<float*> pools_;               ///< by rank on this host
  std::vector<std::vector<float*>> nodes_;  ///< by rank on this host
  std::unique_ptr<Reducer> reducer_;
  float* sum_ = nullptr;                   ///< on several hosts: the sum of all hosts
  std::unique_ptr<hosts::HostSums> sums_;  // the last member: its destructor uses the others
};

}  // namespace lockstep::comm

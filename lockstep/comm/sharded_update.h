#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/comm/hosts/host_sums.h"
#include "lockstep/comm/leaf_counter.h"
#include "lockstep/events/trace_events.h"

namespace lockstep::comm {

/// The reduction that training needs: gradients in, one copy of the state updated, and no sum ever
/// gathered.
///
/// The instances of a group share a state (weights and what the optimizer keeps) in two versions,
/// of which one commit word says which is current. In each step an instance brings its leaves one
/// after another; then everybody reduces a slice of them along the tree, measures it (norms, an
/// overflow), sees what the others measured, and writes its slice of the next version. When all
/// slices are written, the commit word makes that version current. Whoever dies on the way leaves
/// the current version whole; where the launcher keeps memory, both versions and the commit word
/// are in it, and the instances of a restarted job go on with the current one. Totals are numbers
/// at the end of each leaf, few enough for everybody to reduce all of them: losses and counts.
///
/// On several hosts each has a state of its own, and all have the same. What leaves come to on a
/// host is added up between hosts (`hosts::HostSums`), in buckets that may be handed in before the
/// leaf is whole; then the instances of each host update all of its state. A host commits by
/// itself: it can be one version ahead of another, never two, since the next step takes leaves of
/// all hosts. Where a job is started again, hosts agree on the oldest of their current versions,
/// which those that are ahead still have, and give it to hosts that have none. What a host has not
/// got whole, it has not committed: whoever dies meanwhile leaves it a host that has none.
///
/// Slices move with the number of instances, so nothing may depend on them: what is measured is
/// measured by fixed blocks, and whoever looks at all blocks sees the same numbers in the same
/// order, whoever measured them.
///
/// One thread uses it, and its communicator, at a time. Errors: those of a collective; what a
/// user's function throws ends the job.
class LOCKSTEP_PRIVATE_API ShardedUpdate {
 public:
  /// The same on every instance, except for `num_leaves`.
  struct Shape {
    std::int64_t count = 0;              ///< elements of the sum, which is in f32
    std::int64_t num_totals = 0;         ///< that follow them in each leaf
    DataType leaf_type = DataType::F32;  ///< F16, BF16 or F32
    int num_leaves = 1;                  ///< that this instance brings to each step
    /// Where blocks begin, ascending from 0; empty: every `kBlock` elements.
    std::vector<std::int64_t> blocks{};
    int values_per_block = 1;  ///< that are measured
    /// Elements, from the first on, that may be handed in before the rest of the leaf is known, the
    /// last of them first; on several hosts they are then on their way already.
    std::int64_t num_early = 0;
    std::size_t state_bytes = 0;  ///< of one version
    /// Of what all versions have in common, in one copy that is kept and moved with them.
    std::size_t common_bytes = 0;
    /// Of what the state means: a version that an earlier attempt of the job has left is taken for
    /// one of this state only where it is the same.
    std::uint64_t fingerprint = 0;
  };
  static constexpr std::int64_t kBlock = 4096;

  /// Some of the sum's elements, and all that is needed to update the state's part for them.
  struct Part {
    std::int64_t first;                ///< element
    std::span<float> sum;              ///< of all leaves, divided
    std::span<const float> totals;     ///< of all leaves, not divided
    std::span<const double> measured;  ///< of all blocks in order, as far as it is
    const std::byte* current;          ///< the whole state
    std::byte* next;                   ///< where the next version is written
  };
  /// Sees the totals on every instance, before anything else is done. What it throws, if anything,
  /// it throws on all of them.
  using Check = std::function<void(std::span<const float> totals)>;
  /// Measures one block; `values` has room for `values_per_block` numbers, zero at first. Another
  /// measurement sees what the one before it found in all blocks.
  using Measure =
      std::function<void(std::size_t block, const Part& part, std::span<double> values)>;
  /// Writes the next version's elements for one part. It is called for parts of this instance's
  /// slice, ascending, which together are the slice.
  using Update = std::function<void(const Part&)>;
  /// Writes, on the first instance of each host, what of the next version belongs to no element of
  /// the sum.
  using Finish = std::function<void(const Part& whole)>;

  /// What a step does with the sum, in this order.
  struct Step {
    std::int64_t divisor = 1;
    std::int64_t num_divided = -1;  ///< elements from the first on that are divided; -1: all
    Check check{};
    /// Without any, each part is updated while it is in the cache, and nobody waits between.
    std::vector<Measure> measures{};
    Update update{};
    std::function<void()> end_updates{};  ///< once, after the last of this instance's parts
    Finish finish{};
    events::SpanSink* spans = nullptr;  ///< is told what the caller's thread does
    std::int64_t number = 0;            ///< of the step, for that
  };

  /// What all instances of a host together will have of it in memory, where each brings so many
  /// leaves.
  static std::size_t memory_needed(Shape shape, std::span<const int> leaves, int num_hosts = 1);
  /// The elements that one of `size` instances reduces and updates.
  struct Slice {
    std::int64_t first;
    std::int64_t count;
  };
  static Slice slice_of(Shape shape, int rank, int size);

  /// Everybody in the group makes it alike. Errors: `Options` for a shape that cannot be meant.
  ShardedUpdate(Communicator& communicator, Shape shape, std::string name);

  /// Whether there is a version to go on with, of an attempt before.
  bool is_recovered() const noexcept { return source_ >= 0; }
  /// The host that had that version; others may have it from there. -1: there is none.
  int recovered_from() const noexcept { return source_; }

  /// Makes a version that `write` writes, on rank 0, the current one, whatever was before, and what
  /// rank 0 has in common with it that of all hosts. Everybody calls it, and returns when it is
  /// there.
  void initialize(const std::function<void(std::byte* state)>& write);

  /// Where the next leaf is to be written: `count + num_totals` elements of `leaf_type`.
  void* leaf();
  /// Takes the leaf that was written there.
  void take_leaf();

  /// Parts of the leaf that can be taken before the whole is written, in this order.
  std::span<const hosts::Bucket> early_buckets() const noexcept;
  /// Takes the next of these.
  void take_early();
  std::size_t num_taken_early() const noexcept { return num_taken_early_; }
  /// Whether the leaf that is next is this instance's last one of the step.
  bool is_at_last_leaf() const noexcept { return counter_.num_missing() == 1; }

  /// Reduces the leaves, and updates the state with their sum.
  void step(const Step& step);

  /// How often the state was written; 0: never.
  std::uint64_t version() const noexcept;
  const std::byte* state() const noexcept { return state_of(version()); }
  /// Where the next version will be written: what stands there before `initialize` is kept, where
  /// its function does not write over it.
  std::byte* next_state() const noexcept { return state_of(version() + 1); }
  /// All that versions are written to.
  std::span<std::byte> states() const noexcept;
  /// What is not a version's own, zero at first. Whoever writes here, other than in `initialize`,
  /// writes the same on every host, and nothing that could be seen half written after a crash.
  std::byte* common() const noexcept;
  std::span<const std::int64_t> blocks() const noexcept { return shape_.blocks; }
  /// What all instances of the host have of it in memory: versions, and buffers for leaves.
  std::size_t memory_bytes() const noexcept { return memory_bytes_; }
  /// Of the last step.
  std::span<const float> totals() const noexcept { return totals_; }
  /// Seconds of the last step in which all was there on this host, and sums of other hosts were
  /// waited for.
  double waited_for_hosts() const noexcept { return waited_for_hosts_; }

 private:
  struct BlockRange {
    std::size_t begin;
    std::size_t end;
  };
  std::vector<LeafRange> ranges_on_host(const LeafLayout& layout) const;
  void lay_out(const LeafLayout& layout);
  void agree_on_version();
  void take_version_from(int source, std::uint64_t version);
  void send_to_hosts(int source, std::uint64_t version);
  void take_elements(std::int64_t first, std::int64_t count);
  std::byte* state_of(std::uint64_t version) const noexcept;
  float* buffer(int rank, int index) const noexcept;
  BlockRange my_blocks() const;
  std::int64_t first_element(std::size_t block) const;
  std::span<float> sum_of(BlockRange blocks) const;
  Part part_of(BlockRange blocks, std::span<float> sum) const;

  std::int64_t leaf_count() const noexcept { return shape_.count + shape_.num_totals; }
  void check_step(const Step& step) const;
  void run(const Step& step);
  void wait_for_leaves(const Step& step);
  void wait_for_sums(const Step& step);
  std::vector<NodeData> nodes_from(std::int64_t first) const;
  std::span<float> scratch_for(std::size_t block);
  void reduce_totals();
  void reduce(std::size_t block, const Step& step, std::span<float> sum);
  void measure_block(std::size_t block, const Measure& measure);
  void update_slice(const Step& step);
  void write_slice(const Step& step);
  void measure_and_update(const Step& step, BlockRange mine);
  void commit();

  Communicator& communicator_;
  Communicator& host_;  ///< the instances that share its memory
  Shape shape_;
  std::string name_;
  LeafCounter counter_;
  std::vector<float> totals_;
  std::vector<float> block_sum_;            ///< of the block that is being updated
  std::vector<std::uint16_t> narrow_leaf_;  ///< 16-bit leaves are written here
  std::size_t num_taken_early_ = 0;         ///< buckets of the leaf that is next

  std::size_t memory_bytes_ = 0;
  SharedMemory memory_;  ///< what is measured, and buffers
  SharedMemory kept_;    ///< the commit word, both versions, and what they have in common
  int source_ = -1;
  double waited_for_hosts_ = 0;
  std::atomic<std::uint64_t>* committed_ = nullptr;
  double* measured_ = nullptr;
  std::byte* states_ = nullptr;
  std::vector<float*> pools_;               ///< by rank on this host
  std::vector<std::vector<float*>> nodes_;  ///< by rank on this host
  std::unique_ptr<Reducer> reducer_;
  float* sum_ = nullptr;                   ///< on several hosts: of all of them
  std::unique_ptr<hosts::HostSums> sums_;  // last: it uses the rest while it ends
};

}  // namespace lockstep::comm

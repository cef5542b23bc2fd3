#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/leaf_counter.h"

namespace lockstep::comm {

/// The reduction that training needs: gradients in, one copy of the state updated, and no sum ever
/// gathered.
///
/// The instances of a group share a state (weights and what the optimizer keeps) in two versions,
/// of which one commit word says which is current. In each step an instance brings its leaves one
/// after another; then everybody reduces a slice of them along the tree, measures it (norms, an
/// overflow), sees what the others measured, and writes its slice of the next version. When all
/// slices are written, the commit word makes that version current. Whoever dies on the way leaves
/// the current version whole.
///
/// Slices move with the number of instances, so nothing may depend on them: what is measured is
/// measured by fixed blocks, and whoever looks at all blocks sees the same numbers in the same
/// order, whoever measured them.
///
/// One thread uses it, and its communicator, at a time. Errors: those of a collective; what a
/// user's function throws ends the job.
class ShardedUpdate {
 public:
  /// The same on every instance, except for `num_leaves`.
  struct Shape {
    std::int64_t count = 0;              ///< elements of a leaf, and of the sum, which is in f32
    DataType leaf_type = DataType::F32;  ///< F16, BF16 or F32
    int num_leaves = 1;                  ///< that this instance brings to each step
    /// Where blocks begin, ascending from 0; empty: every `kBlock` elements.
    std::vector<std::int64_t> blocks{};
    int values_per_block = 1;     ///< that are measured
    std::size_t state_bytes = 0;  ///< of one version
  };
  static constexpr std::int64_t kBlock = 4096;

  /// Some of the sum's elements, and all that is needed to update the state's part for them.
  struct Part {
    std::int64_t first;                ///< element
    std::span<float> sum;              ///< of all leaves, divided
    std::span<const double> measured;  ///< of all blocks in order; old without a `Measure`
    const std::byte* current;          ///< the whole state
    std::byte* next;                   ///< where the next version is written
  };
  /// Measures one block; `values` has room for `values_per_block` numbers, zero at first.
  using Measure =
      std::function<void(int block, std::span<const float> sum, std::span<double> values)>;
  /// Writes the next version's elements for one part. It is called for parts of this instance's
  /// slice, ascending, which together are the slice.
  using Update = std::function<void(const Part&)>;

  /// Everybody in the group makes it alike. Errors: `Options` for a shape that cannot be meant.
  ShardedUpdate(Communicator& communicator, Shape shape, std::string name);

  /// Writes the first version on rank 0; everybody calls it, and returns when it is there.
  void initialize(const std::function<void(std::byte* state)>& write);

  /// Where the next leaf is to be written: `count` elements of `leaf_type`.
  void* leaf();
  /// Takes the leaf that was written there.
  void take_leaf();

  /// Divides the sum of all leaves by `divisor`, and updates the state with it. Without `measure`
  /// each part is updated while it is in the cache, and nobody waits between.
  void step(std::int64_t divisor, const Measure& measure, const Update& update);

  /// How often the state was updated.
  std::uint64_t version() const noexcept;
  const std::byte* state() const noexcept { return state_of(version()); }
  std::span<const std::int64_t> blocks() const noexcept { return shape_.blocks; }

 private:
  struct BlockRange {
    std::size_t begin;
    std::size_t end;
  };
  void lay_out(std::span<const LeafRange> ranges);
  std::byte* state_of(std::uint64_t version) const noexcept;
  float* buffer(int rank, int index) const noexcept;
  BlockRange my_blocks() const;
  std::int64_t first_element(std::size_t block) const;
  std::span<float> sum_of(BlockRange blocks) const;
  Part part_of(BlockRange blocks) const;

  void check_step(std::int64_t divisor) const;
  void reduce(std::size_t block, std::int64_t divisor);
  void measure_block(std::size_t block, const Measure& measure);
  void write_slice(std::int64_t divisor, const Measure& measure, const Update& update);
  void commit();

  Communicator& communicator_;
  Shape shape_;
  std::string name_;
  LeafCounter counter_;
  std::vector<std::uint16_t> narrow_leaf_;  ///< 16-bit leaves are written here

  SharedMemory memory_;
  std::atomic<std::uint64_t>* committed_ = nullptr;
  double* measured_ = nullptr;
  std::byte* states_ = nullptr;
  std::vector<float*> pools_;            ///< by rank
  std::vector<const float*> node_data_;  ///< of all instances, as the tree wants them
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace lockstep::comm

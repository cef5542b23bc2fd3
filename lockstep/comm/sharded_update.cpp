#include "lockstep/comm/sharded_update.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/base/fnv.h"
#include "lockstep/comm/leaf_layout.h"
#include "lockstep/comm/reduce_kernels.h"

namespace lockstep::comm {
namespace {

/// Everything begins at a line of the cache, so that nobody writes where another reads.
constexpr std::size_t kLine = 64;

std::size_t whole_lines(std::size_t bytes) {
  return (bytes + kLine - 1) / kLine * kLine;
}

void check(const ShardedUpdate::Shape& shape, const std::string& name) {
  const auto refuse = [&](const std::string& what) {
    throw Error(ErrorKind::Options, fmt::format("ShardedUpdate \"{}\": {}", name, what));
  };
  if (shape.count < 1) refuse(fmt::format("expected a count of at least 1, found {}", shape.count));
  if (shape.num_totals < 0) {
    refuse(fmt::format("expected at least 0 totals, found {}", shape.num_totals));
  }
  if (accumulator_of(shape.leaf_type) != DataType::F32) {
    refuse(fmt::format("expected leaves of f16, bf16 or f32, found {}", name_of(shape.leaf_type)));
  }
  if (shape.num_leaves < 1) {
    refuse(fmt::format("expected at least one leaf, found {}", shape.num_leaves));
  }
  if (shape.values_per_block < 0) {
    refuse(fmt::format("expected at least 0 values per block, found {}", shape.values_per_block));
  }
  if (shape.state_bytes == 0) refuse("expected a state, found 0 bytes");
  const bool is_ascending =
      shape.blocks.empty() || (shape.blocks.front() == 0 && shape.blocks.back() < shape.count &&
                               std::adjacent_find(shape.blocks.begin(), shape.blocks.end(),
                                                  std::greater_equal<>()) == shape.blocks.end());
  if (!is_ascending) {
    refuse(fmt::format("expected blocks that ascend from 0 and begin below {}", shape.count));
  }
}

ShardedUpdate::Shape with_blocks(ShardedUpdate::Shape shape) {
  if (!shape.blocks.empty()) return shape;
  for (std::int64_t first = 0; first < shape.count; first += ShardedUpdate::kBlock) {
    shape.blocks.push_back(first);
  }
  return shape;
}

/// What must be the same on every instance, and what need not.
struct Announcement {
  std::int64_t count;
  std::int64_t num_totals;
  std::int64_t state_bytes;
  std::int64_t type;
  std::int64_t blocks;  ///< a hash
  std::int64_t num_leaves;

  bool agrees_with(const Announcement& other) const {
    return count == other.count && num_totals == other.num_totals &&
           state_bytes == other.state_bytes && type == other.type && blocks == other.blocks;
  }
};

Announcement announcement_of(const ShardedUpdate::Shape& shape) {
  Fnv blocks;
  blocks.add(static_cast<std::uint64_t>(shape.values_per_block)).add(shape.fingerprint);
  for (const auto block : shape.blocks) blocks.add(static_cast<std::uint64_t>(block));
  return {shape.count,
          shape.num_totals,
          static_cast<std::int64_t>(shape.state_bytes),
          static_cast<std::int64_t>(shape.leaf_type),
          static_cast<std::int64_t>(blocks.value()),
          shape.num_leaves};
}

std::string describe(const Announcement& shape) {
  return fmt::format("{} {}, {} totals, {} bytes of state, blocks {:08x}", shape.count,
                     name_of(static_cast<DataType>(shape.type)), shape.num_totals,
                     shape.state_bytes, static_cast<std::uint64_t>(shape.blocks) & 0xffffffffU);
}

/// How many leaves each instance brings. Throws, on every instance, where shapes differ.
std::vector<int> agree_on_shape(Communicator& communicator, const ShardedUpdate::Shape& shape,
                                const std::string& name) {
  constexpr std::int64_t kWidth = sizeof(Announcement) / sizeof(std::int64_t);
  const auto mine = announcement_of(shape);
  std::vector<Announcement> all(static_cast<std::size_t>(communicator.size()));
  communicator.all_gather(ConstBuffer(&mine, kWidth, DataType::I64, name),
                          Buffer{all.data(), kWidth * communicator.size(), DataType::I64, name});
  std::vector<int> leaf_counts;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (!all[rank].agrees_with(all.front())) {
      throw Error(ErrorKind::Options,
                  fmt::format("ShardedUpdate \"{}\": instances disagree: instance {} has {}, "
                              "instance {} has {}",
                              name, communicator.instances().front(), describe(all.front()),
                              communicator.instances()[rank], describe(all[rank])));
    }
    leaf_counts.push_back(static_cast<int>(all[rank].num_leaves));
  }
  return leaf_counts;
}

std::size_t leaf_bytes_of(const ShardedUpdate::Shape& shape) {
  return whole_lines(static_cast<std::size_t>(shape.count + shape.num_totals) * sizeof(float));
}

std::size_t measured_bytes_of(const ShardedUpdate::Shape& shape) {
  return whole_lines(shape.blocks.size() * static_cast<std::size_t>(shape.values_per_block) *
                     sizeof(double));
}

/// What ends with the instances: what is measured, and buffers for nodes.
std::size_t bytes_of(const ShardedUpdate::Shape& shape, std::span<const LeafRange> ranges) {
  std::size_t num_buffers = 0;
  for (const auto& range : ranges) num_buffers += static_cast<std::size_t>(num_buffers_for(range));
  return measured_bytes_of(shape) + num_buffers * leaf_bytes_of(shape);
}

/// The commit word, and two versions.
std::size_t kept_bytes_of(const ShardedUpdate::Shape& shape) {
  return kLine + 2 * whole_lines(shape.state_bytes);
}

/// The blocks of one of `size` instances, from the first to the one behind the last.
std::pair<std::size_t, std::size_t> slice_blocks(const ShardedUpdate::Shape& shape, int rank,
                                                 int size) {
  const auto first_from = [&](std::int64_t next) {
    const auto element = shape.count * next / size;
    const auto found = std::lower_bound(shape.blocks.begin(), shape.blocks.end(), element);
    return static_cast<std::size_t>(found - shape.blocks.begin());
  };
  return {first_from(rank), first_from(rank + 1)};
}

}  // namespace

ShardedUpdate::ShardedUpdate(Communicator& communicator, Shape shape, std::string name)
    : communicator_(communicator),
      shape_(with_blocks(std::move(shape))),
      name_(std::move(name)),
      counter_({}) {
  check(shape_, name_);
  const LeafLayout layout(agree_on_shape(communicator_, shape_, name_));
  counter_ = LeafCounter(layout.ranges[static_cast<std::size_t>(communicator_.rank())]);
  totals_.resize(static_cast<std::size_t>(shape_.num_totals));
  if (shape_.leaf_type != DataType::F32) {
    narrow_leaf_.resize(static_cast<std::size_t>(leaf_count()));
  }
  lay_out(layout.ranges);
  reducer_ =
      std::make_unique<Reducer>(ReductionTree(layout.nodes, layout.num_leaves), ReduceOp::Sum);
}

std::size_t ShardedUpdate::memory_needed(Shape shape, std::span<const int> leaves) {
  shape = with_blocks(std::move(shape));
  return kept_bytes_of(shape) + bytes_of(shape, LeafLayout(leaves).ranges);
}

ShardedUpdate::Slice ShardedUpdate::slice_of(Shape shape, int rank, int size) {
  shape = with_blocks(std::move(shape));
  const auto [begin, end] = slice_blocks(shape, rank, size);
  const auto element = [&](std::size_t block) {
    return block < shape.blocks.size() ? shape.blocks[block] : shape.count;
  };
  return {element(begin), element(end) - element(begin)};
}

void ShardedUpdate::lay_out(std::span<const LeafRange> ranges) {
  const auto leaf_bytes = leaf_bytes_of(shape_);
  const auto measured_bytes = measured_bytes_of(shape_);
  memory_bytes_ = kept_bytes_of(shape_) + bytes_of(shape_, ranges);
  memory_ = communicator_.allocate(bytes_of(shape_, ranges), name_);
  kept_ = communicator_.keep(kept_bytes_of(shape_), name_, shape_.fingerprint).memory;
  committed_ = reinterpret_cast<std::atomic<std::uint64_t>*>(kept_.data());
  states_ = kept_.data() + kLine;
  is_recovered_ = version() > 0;

  auto* next = memory_.data();
  const auto take = [&](std::size_t size) { return std::exchange(next, next + size); };
  measured_ = reinterpret_cast<double*>(take(measured_bytes));
  for (const auto& range : ranges) {
    pools_.push_back(reinterpret_cast<float*>(next));
    LeafCounter counter(range);
    while (counter.num_missing() > 0) counter.take();
    const auto rank = static_cast<int>(pools_.size()) - 1;
    for (const auto& held : counter.held()) node_data_.push_back(buffer(rank, held.buffer));
    take(static_cast<std::size_t>(num_buffers_for(range)) * leaf_bytes);
  }
}

float* ShardedUpdate::buffer(int rank, int index) const noexcept {
  const auto stride =
      whole_lines(static_cast<std::size_t>(leaf_count()) * sizeof(float)) / sizeof(float);
  return pools_[static_cast<std::size_t>(rank)] + static_cast<std::size_t>(index) * stride;
}

std::byte* ShardedUpdate::state_of(std::uint64_t version) const noexcept {
  return states_ + version % 2 * whole_lines(shape_.state_bytes);
}

std::uint64_t ShardedUpdate::version() const noexcept {
  return committed_->load(std::memory_order_acquire);
}

void ShardedUpdate::initialize(const std::function<void(std::byte*)>& write) {
  if (communicator_.rank() == 0) write(state_of(version() + 1));
  commit();
}

void* ShardedUpdate::leaf() {
  if (counter_.num_missing() == 0) {
    throw Error(ErrorKind::Options,
                fmt::format("ShardedUpdate \"{}\": expected {} leaves, found one more", name_,
                            shape_.num_leaves),
                "call step() after the last one");
  }
  if (!narrow_leaf_.empty()) return narrow_leaf_.data();
  return buffer(communicator_.rank(), counter_.next_buffer());
}

void ShardedUpdate::take_leaf() {
  const auto* written = leaf();
  const int rank = communicator_.rank();
  const auto count = static_cast<std::size_t>(leaf_count());
  if (!narrow_leaf_.empty()) {
    kernels::widen(shape_.leaf_type, written, buffer(rank, counter_.next_buffer()), count);
  }
  for (const auto& fold : counter_.take()) {
    kernels::combine(ReduceOp::Sum, DataType::F32, buffer(rank, fold.into), buffer(rank, fold.from),
                     buffer(rank, fold.into), count);
  }
}

/// Blocks are dealt out whole, by where they begin, in about equal numbers of elements.
ShardedUpdate::BlockRange ShardedUpdate::my_blocks() const {
  const auto [begin, end] = slice_blocks(shape_, communicator_.rank(), communicator_.size());
  return {begin, end};
}

std::int64_t ShardedUpdate::first_element(std::size_t block) const {
  return block < shape_.blocks.size() ? shape_.blocks[block] : shape_.count;
}

/// What is measured first stays: the sum takes the place of this instance's first node, of which
/// nobody else reads these blocks.
std::span<float> ShardedUpdate::sum_of(BlockRange blocks) const {
  const auto first = first_element(blocks.begin);
  auto* node = buffer(communicator_.rank(), counter_.held().front().buffer);
  return {node + first, static_cast<std::size_t>(first_element(blocks.end) - first)};
}

/// Into memory of this instance: the others read the nodes too.
void ShardedUpdate::reduce_totals() {
  if (totals_.empty()) return;
  std::vector<NodeData> nodes;
  for (const auto* data : node_data_) nodes.push_back({data + shape_.count, DataType::F32});
  reducer_->reduce(nodes, totals_.size(), DataType::F32, totals_.data(), DataType::F32);
}

void ShardedUpdate::reduce(std::size_t block, const Step& step, std::span<float> sum) {
  const auto first = first_element(block);
  std::vector<NodeData> nodes;
  nodes.reserve(node_data_.size());
  for (const auto* data : node_data_) nodes.push_back({data + first, DataType::F32});
  reducer_->reduce(nodes, sum.size(), DataType::F32, sum.data(), DataType::F32);
  if (step.divisor == 1) return;
  const auto end = step.num_divided < 0 ? shape_.count : step.num_divided;
  const auto divided = std::clamp<std::int64_t>(end - first, 0, std::ssize(sum));
  kernels::divide(DataType::F32, sum.data(), step.divisor, static_cast<std::size_t>(divided));
}

void ShardedUpdate::measure_block(std::size_t block, const Measure& measure) {
  const auto width = static_cast<std::size_t>(shape_.values_per_block);
  measure(block, part_of({block, block + 1}, sum_of({block, block + 1})),
          {measured_ + block * width, width});
}

ShardedUpdate::Part ShardedUpdate::part_of(BlockRange blocks, std::span<float> sum) const {
  const auto values = shape_.blocks.size() * static_cast<std::size_t>(shape_.values_per_block);
  return {first_element(blocks.begin), sum,     totals_,
          {measured_, values},         state(), state_of(version() + 1)};
}

void ShardedUpdate::check_step(const Step& step) const {
  if (counter_.num_missing() > 0) {
    throw Error(ErrorKind::Options,
                fmt::format("ShardedUpdate \"{}\": expected {} leaves, found {}", name_,
                            shape_.num_leaves, shape_.num_leaves - counter_.num_missing()),
                "call take_leaf() for each of them before step()");
  }
  if (step.divisor < 1) {
    throw Error(ErrorKind::Options,
                fmt::format("ShardedUpdate \"{}\": expected a divisor of at least 1, found {}",
                            name_, step.divisor));
  }
}

void ShardedUpdate::step(const Step& step) {
  check_step(step);
  try {
    run(step);
  } catch (const Error& error) {
    communicator_.report_failure(error);
    throw;
  } catch (const std::exception& error) {
    // The others must not take what this instance does next for the end of the step.
    communicator_.report_failure(
        Error(ErrorKind::PeerLost,
              fmt::format("ShardedUpdate \"{}\": instance {} failed: {}", name_,
                          communicator_.instances()[static_cast<std::size_t>(communicator_.rank())],
                          error.what())));
    throw;
  }
}

void ShardedUpdate::run(const Step& step) {
  communicator_.barrier(name_);  // every leaf is there
  reduce_totals();
  if (step.check) step.check(totals_);
  write_slice(step);
  if (step.finish && communicator_.rank() == 0) {
    step.finish(part_of({0, 0}, {}));
  }
  commit();
  counter_.restart();
}

void ShardedUpdate::write_slice(const Step& step) {
  const auto mine = my_blocks();
  if (!step.measures.empty()) return measure_and_update(step, mine);
  for (auto block = mine.begin; block < mine.end; ++block) {
    block_sum_.resize(static_cast<std::size_t>(first_element(block + 1) - first_element(block)));
    reduce(block, step, block_sum_);
    step.update(part_of({block, block + 1}, block_sum_));
  }
}

void ShardedUpdate::measure_and_update(const Step& step, BlockRange mine) {
  const auto width = static_cast<std::size_t>(shape_.values_per_block);
  std::fill(measured_ + mine.begin * width, measured_ + mine.end * width, 0.0);
  for (auto block = mine.begin; block < mine.end; ++block) {
    reduce(block, step, sum_of({block, block + 1}));
    measure_block(block, step.measures.front());
  }
  for (std::size_t i = 1; i < step.measures.size(); ++i) {
    communicator_.barrier(name_);  // the measurement before is there
    for (auto block = mine.begin; block < mine.end; ++block) {
      measure_block(block, step.measures[i]);
    }
  }
  communicator_.barrier(name_);  // everything is measured
  if (mine.begin < mine.end) step.update(part_of(mine, sum_of(mine)));
}

void ShardedUpdate::commit() {
  auto current = version();
  communicator_.barrier(name_);  // everything is written
  // Everybody commits: it is the same word, and nobody goes on before it is there.
  committed_->compare_exchange_strong(current, current + 1, std::memory_order_acq_rel);
}

}  // namespace lockstep::comm

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

using Shape = ShardedUpdate::Shape;

/// All parts of the memory begin at a cache line, so that no two instances write to the same line.
constexpr std::size_t kLine = 64;

std::size_t whole_lines(std::size_t bytes) {
  return (bytes + kLine - 1) / kLine * kLine;
}

/// The shape of one instance. All numbers except `num_leaves` must be equal on every instance.
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

Announcement announcement_of(const Shape& shape) {
  Fnv blocks;
  blocks.add(static_cast<std::uint64_t>(shape.values_per_block)).add(shape.fingerprint);
  blocks.add(static_cast<std::uint64_t>(shape.num_early)).add(shape.common_bytes);
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

void check_shape(const Shape& shape, const std::string& name) {
  const auto expect = [&](bool holds, const std::string& expected, const auto& found) {
    if (holds) return;
    throw Error(ErrorKind::Options,
                fmt::format("ShardedUpdate \"{}\": expected {}, found {}", name, expected, found));
  };
  expect(shape.count >= 1, "a count of at least 1", shape.count);
  expect(shape.num_totals >= 0, "at least 0 totals", shape.num_totals);
  expect(accumulator_of(shape.leaf_type) == DataType::F32, "leaves of f16, bf16 or f32",
         name_of(shape.leaf_type));
  expect(shape.num_leaves >= 1, "at least one leaf", shape.num_leaves);
  expect(shape.values_per_block >= 0, "at least 0 values per block", shape.values_per_block);
  expect(shape.num_early >= 0 && shape.num_early <= shape.count,
         fmt::format("0 to {} elements that come early", shape.count), shape.num_early);
  expect(shape.state_bytes > 0, "a state", "0 bytes");
  const bool is_ascending =
      shape.blocks.empty() ||
      (shape.blocks.front() == 0 && shape.blocks.back() < shape.count &&
       std::ranges::adjacent_find(shape.blocks, std::greater_equal<>()) == shape.blocks.end());
  if (is_ascending) return;
  throw Error(
      ErrorKind::Options,
      fmt::format("ShardedUpdate \"{}\": expected blocks that ascend from 0 and begin below "
                  "{}",
                  name, shape.count));
}

Shape with_blocks(Shape shape) {
  if (!shape.blocks.empty()) return shape;
  for (std::int64_t first = 0; first < shape.count; first += ShardedUpdate::kBlock) {
    shape.blocks.push_back(first);
  }
  return shape;
}

/// Returns the number of leaves of each instance. Throws, on every instance, if shapes differ.
std::vector<int> agree_on_shape(Communicator& communicator, const Shape& shape,
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

std::size_t leaf_bytes_of(const Shape& shape) {
  return whole_lines(static_cast<std::size_t>(shape.count + shape.num_totals) * sizeof(float));
}

std::size_t measured_bytes_of(const Shape& shape) {
  return whole_lines(shape.blocks.size() * static_cast<std::size_t>(shape.values_per_block) *
                     sizeof(double));
}

std::vector<hosts::Bucket> buckets_of(const Shape& shape) {
  return hosts::cut_into_buckets(shape.num_early, shape.count + shape.num_totals);
}

/// Memory for other hosts: the sum, and a counter for each bucket.
std::size_t bytes_for_hosts(const Shape& shape, int num_hosts) {
  if (num_hosts == 1) return 0;
  return leaf_bytes_of(shape) + whole_lines(buckets_of(shape).size() * sizeof(std::uint64_t));
}

/// Memory of one attempt of the job: measured values, and buffers for nodes.
std::size_t attempt_bytes_of(const Shape& shape, std::span<const LeafRange> ranges) {
  std::size_t num_buffers = 0;
  for (const auto& range : ranges) num_buffers += static_cast<std::size_t>(num_buffers_for(range));
  return measured_bytes_of(shape) + num_buffers * leaf_bytes_of(shape);
}

/// Memory that survives a restart: the commit word, two versions, and their common memory.
std::size_t kept_bytes_of(const Shape& shape) {
  return kLine + 2 * whole_lines(shape.state_bytes) + whole_lines(shape.common_bytes);
}

/// The blocks of one of `size` instances: the first one, and the one behind the last.
std::pair<std::size_t, std::size_t> slice_blocks(const Shape& shape, int rank, int size) {
  const auto first_from = [&](std::int64_t next) {
    const auto element = shape.count * next / size;
    const auto found = std::lower_bound(shape.blocks.begin(), shape.blocks.end(), element);
    return static_cast<std::size_t>(found - shape.blocks.begin());
  };
  return {first_from(rank), first_from(rank + 1)};
}

/// The first element of a block. For the block behind the last one: the number of elements.
std::int64_t first_element(const Shape& shape, std::size_t block) {
  return block < shape.blocks.size() ? shape.blocks[block] : shape.count;
}

}  // namespace

ShardedUpdate::ShardedUpdate(Communicator& communicator, Shape shape, std::string name)
    : communicator_(communicator),
      host_(communicator.on_this_host()),
      shape_(with_blocks(std::move(shape))),
      name_(std::move(name)),
      counter_({}) {
  check_shape(shape_, name_);
  const LeafLayout layout(agree_on_shape(communicator_, shape_, name_));
  counter_ = LeafCounter(layout.ranges[static_cast<std::size_t>(communicator_.rank())]);
  totals_.resize(static_cast<std::size_t>(shape_.num_totals));
  if (shape_.leaf_type != DataType::F32) {
    narrow_leaf_.resize(static_cast<std::size_t>(leaf_count()));
  }
  lay_out(layout);
  agree_on_version();
}

std::size_t ShardedUpdate::memory_needed(Shape shape, std::span<const int> leaves, int num_hosts) {
  shape = with_blocks(std::move(shape));
  return kept_bytes_of(shape) + attempt_bytes_of(shape, LeafLayout(leaves).ranges) +
         bytes_for_hosts(shape, num_hosts);
}

ShardedUpdate::Slice ShardedUpdate::slice_of(Shape shape, int rank, int size) {
  shape = with_blocks(std::move(shape));
  const auto [begin, end] = slice_blocks(shape, rank, size);
  const auto first = first_element(shape, begin);
  return {first, first_element(shape, end) - first};
}

std::vector<LeafRange> ShardedUpdate::ranges_on_host(const LeafLayout& layout) const {
  const auto hosts = communicator_.hosts();
  std::vector<LeafRange> ranges;
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    const bool is_here = hosts[rank] == hosts[static_cast<std::size_t>(communicator_.rank())];
    if (is_here) ranges.push_back(layout.ranges[rank]);
  }
  return ranges;
}

void ShardedUpdate::lay_out(const LeafLayout& layout) {
  const auto leaf_bytes = leaf_bytes_of(shape_);
  const auto ranges = ranges_on_host(layout);
  const int num_hosts = communicator_.num_hosts();
  const auto bytes = attempt_bytes_of(shape_, ranges) + bytes_for_hosts(shape_, num_hosts);
  memory_bytes_ = kept_bytes_of(shape_) + bytes;
  memory_ = host_.allocate(bytes, name_);
  kept_ = host_.keep(kept_bytes_of(shape_), name_, shape_.fingerprint).memory;
  committed_ = reinterpret_cast<std::atomic<std::uint64_t>*>(kept_.data());
  states_ = kept_.data() + kLine;

  auto* next = memory_.data();
  const auto take = [&](std::size_t size) { return std::exchange(next, next + size); };
  measured_ = reinterpret_cast<double*>(take(measured_bytes_of(shape_)));
  for (const auto& range : ranges) {
    pools_.push_back(reinterpret_cast<float*>(next));
    LeafCounter counter(range);
    while (counter.num_missing() > 0) counter.take();
    const auto rank = static_cast<int>(pools_.size()) - 1;
    auto& nodes = nodes_.emplace_back();
    for (const auto& held : counter.held()) nodes.push_back(buffer(rank, held.buffer));
    take(static_cast<std::size_t>(num_buffers_for(range)) * leaf_bytes);
  }
  if (num_hosts == 1) {
    reducer_ =
        std::make_unique<Reducer>(ReductionTree(layout.nodes, layout.num_leaves), ReduceOp::Sum);
    return;
  }
  sum_ = reinterpret_cast<float*>(take(leaf_bytes));
  sums_ = std::make_unique<hosts::HostSums>(
      communicator_, layout, buckets_of(shape_),
      hosts::HostSums::Memory{nodes_, reinterpret_cast<std::atomic<std::uint64_t>*>(next), sum_});
}

/// Hosts that have committed one version more than another host return to the older version.
void ShardedUpdate::agree_on_version() {
  std::vector<std::int64_t> versions(static_cast<std::size_t>(communicator_.num_hosts()));
  versions.front() = static_cast<std::int64_t>(version());
  if (communicator_.num_hosts() > 1) {
    if (communicator_.is_leader()) {
      const auto mine = static_cast<std::int64_t>(version());
      communicator_.leaders().all_gather(
          ConstBuffer(&mine, 1, DataType::I64, name_),
          Buffer{versions.data(), std::ssize(versions), DataType::I64, name_});
    }
    host_.broadcast(Buffer{versions.data(), std::ssize(versions), DataType::I64, name_}, 0);
  }
  std::int64_t oldest = 0;
  for (std::size_t host = 0; host < versions.size(); ++host) {
    if (versions[host] == 0 || (oldest > 0 && versions[host] >= oldest)) continue;
    oldest = versions[host];
    source_ = static_cast<int>(host);
  }
  if (source_ < 0 || communicator_.num_hosts() == 1) return;
  take_version_from(source_, static_cast<std::uint64_t>(oldest));
}

/// All hosts take part, because some may not have the version. A host commits it when all of it has
/// arrived, so that a host that dies meanwhile is not taken for a host that has it.
void ShardedUpdate::take_version_from(int source, std::uint64_t version) {
  if (communicator_.is_leader()) {
    send_to_hosts(source, version);
    committed_->store(version, std::memory_order_release);
  }
  host_.barrier(name_);
}

/// Sends a version of `source` to all hosts. Only leaders call it.
void ShardedUpdate::send_to_hosts(int source, std::uint64_t version) {
  const auto send = [&](std::byte* data, std::size_t bytes) {
    if (bytes == 0) return;
    communicator_.leaders().broadcast(
        Buffer{data, static_cast<std::int64_t>(bytes), DataType::U8, name_}, source);
  };
  send(state_of(version), shape_.state_bytes);
  send(common(), shape_.common_bytes);
}

float* ShardedUpdate::buffer(int rank, int index) const noexcept {
  const auto stride = leaf_bytes_of(shape_) / sizeof(float);
  return pools_[static_cast<std::size_t>(rank)] + static_cast<std::size_t>(index) * stride;
}

std::byte* ShardedUpdate::state_of(std::uint64_t version) const noexcept {
  return states_ + version % 2 * whole_lines(shape_.state_bytes);
}

std::byte* ShardedUpdate::common() const noexcept {
  return states_ + 2 * whole_lines(shape_.state_bytes);
}

std::uint64_t ShardedUpdate::version() const noexcept {
  return committed_->load(std::memory_order_acquire);
}

std::span<std::byte> ShardedUpdate::states() const noexcept {
  return {states_, 2 * whole_lines(shape_.state_bytes)};
}

void ShardedUpdate::publish() {
  if (communicator_.num_hosts() > 1 && communicator_.is_leader()) send_to_hosts(0, version() + 1);
  commit();
}

void* ShardedUpdate::leaf() {
  if (counter_.num_missing() == 0) {
    throw Error(ErrorKind::Options,
                fmt::format("ShardedUpdate \"{}\": expected {} leaves, found one more", name_,
                            shape_.num_leaves),
                "call reduce() and commit() after the last one");
  }
  if (!narrow_leaf_.empty()) return narrow_leaf_.data();
  return buffer(host_.rank(), counter_.next_buffer());
}

std::span<const hosts::Bucket> ShardedUpdate::early_buckets() const noexcept {
  if (!sums_) return {};
  const auto all = sums_->buckets();
  return all.first(all.size() - (shape_.num_early < leaf_count() ? 1 : 0));
}

void ShardedUpdate::take_early() {
  const auto [first, count] = early_buckets()[num_taken_early_];
  take_elements(first, count);
  if (is_at_last_leaf()) sums_->hand_in(num_taken_early_);
  ++num_taken_early_;
}

void ShardedUpdate::take_leaf() {
  static_cast<void>(leaf());  // throws if no leaf is missing
  const auto buckets = sums_ ? sums_->buckets() : std::span<const hosts::Bucket>();
  if (buckets.empty()) take_elements(0, leaf_count());
  for (auto bucket = num_taken_early_; bucket < buckets.size(); ++bucket) {
    take_elements(buckets[bucket].first, buckets[bucket].count);
    if (is_at_last_leaf()) sums_->hand_in(bucket);
  }
  num_taken_early_ = 0;
  counter_.take();
}

/// Folds some elements of the next leaf. The leaf is taken when all its elements are.
void ShardedUpdate::take_elements(std::int64_t first, std::int64_t count) {
  const int rank = host_.rank();
  const auto size = static_cast<std::size_t>(count);
  if (!narrow_leaf_.empty()) {
    kernels::widen(shape_.leaf_type, narrow_leaf_.data() + first,
                   buffer(rank, counter_.next_buffer()) + first, size);
  }
  auto then = counter_;
  for (const auto& fold : then.take()) {
    auto* into = buffer(rank, fold.into) + first;
    kernels::combine(ReduceOp::Sum, DataType::F32, into, buffer(rank, fold.from) + first, into,
                     size);
  }
}

/// An instance owns whole blocks. Instances have about equal numbers of elements.
std::pair<std::size_t, std::size_t> ShardedUpdate::my_blocks() const {
  return slice_blocks(shape_, host_.rank(), host_.size());
}

/// With one pass, a sum is needed only until the next one. With several passes, the sum replaces
/// these blocks of this instance's first node, which no other instance reads. On several hosts, the
/// sum of the hosts is there already.
std::span<float> ShardedUpdate::memory_for_sum(std::size_t block) {
  const auto first = first_element(shape_, block);
  const auto count = static_cast<std::size_t>(first_element(shape_, block + 1) - first);
  if (sums_) return {sum_ + first, count};
  if (reduction_.passes == Passes::Several) {
    return {buffer(host_.rank(), counter_.held().front().buffer) + first, count};
  }
  block_sum_.resize(count);
  return block_sum_;
}

std::vector<NodeData> ShardedUpdate::nodes_from(std::int64_t first) const {
  std::vector<NodeData> nodes;
  for (const auto& of_rank : nodes_) {
    for (const auto* data : of_rank) nodes.push_back({data + first, DataType::F32});
  }
  return nodes;
}

/// Writes to memory of this instance, because the other instances read the nodes, too.
void ShardedUpdate::reduce_totals() {
  if (totals_.empty()) return;
  if (sums_) {
    std::copy_n(sum_ + shape_.count, totals_.size(), totals_.begin());
    return;
  }
  const auto nodes = nodes_from(shape_.count);
  reducer_->reduce(nodes, totals_.size(), DataType::F32, totals_.data(), DataType::F32);
}

ShardedUpdate::Part ShardedUpdate::part(std::size_t block) {
  const auto first = first_element(shape_, block);
  const auto sum = memory_for_sum(block);
  if (is_reduced_) return {block, first, sum};
  if (!sums_) {
    const auto nodes = nodes_from(first);
    reducer_->reduce(nodes, sum.size(), DataType::F32, sum.data(), DataType::F32);
  }
  if (reduction_.divisor != 1) {
    const auto end = reduction_.num_divided < 0 ? shape_.count : reduction_.num_divided;
    const auto divided = std::clamp<std::int64_t>(end - first, 0, std::ssize(sum));
    kernels::divide(DataType::F32, sum.data(), reduction_.divisor,
                    static_cast<std::size_t>(divided));
  }
  is_reduced_ = reduction_.passes == Passes::Several && block + 1 == my_blocks().second;
  return {block, first, sum};
}

std::span<double> ShardedUpdate::values_of(std::size_t block) {
  const auto width = static_cast<std::size_t>(shape_.values_per_block);
  return {measured_ + block * width, width};
}

std::span<const double> ShardedUpdate::measured() const noexcept {
  return {measured_, shape_.blocks.size() * static_cast<std::size_t>(shape_.values_per_block)};
}

void ShardedUpdate::share_measured() {
  host_.barrier(name_);
}

void ShardedUpdate::check_reduction(const Reduction& reduction) const {
  if (counter_.num_missing() > 0) {
    throw Error(ErrorKind::Options,
                fmt::format("ShardedUpdate \"{}\": expected {} leaves, found {}", name_,
                            shape_.num_leaves, shape_.num_leaves - counter_.num_missing()),
                "call take_leaf() for each leaf before reduce()");
  }
  if (reduction.divisor < 1) {
    throw Error(ErrorKind::Options,
                fmt::format("ShardedUpdate \"{}\": expected a divisor of at least 1, found {}",
                            name_, reduction.divisor));
  }
}

void ShardedUpdate::reduce(const Reduction& reduction) {
  check_reduction(reduction);
  reduction_ = reduction;
  is_reduced_ = false;
  wait_for_leaves();
  if (sums_) wait_for_sums();
  reduce_totals();
  if (reduction.passes == Passes::One) return;
  const auto width = static_cast<std::size_t>(shape_.values_per_block);
  const auto [begin, end] = my_blocks();
  std::fill(measured_ + begin * width, measured_ + end * width, 0.0);
}

void ShardedUpdate::wait_for_leaves() {
  const events::TimedWait wait(reduction_.spans, reduction_.step);
  host_.barrier(name_);
}

void ShardedUpdate::wait_for_sums() {
  const events::TimedScope reduce(reduction_.spans, events::SpanKind::Reduce, reduction_.step);
  const auto begin = events::monotonic_nanoseconds();
  if (communicator_.is_leader()) sums_->wait();
  host_.barrier(name_);  // the sums of all hosts have arrived
  waited_for_hosts_ = 1e-9 * static_cast<double>(events::monotonic_nanoseconds() - begin);
}

void ShardedUpdate::commit() {
  const events::TimedWait wait(std::exchange(reduction_.spans, nullptr), reduction_.step);
  auto current = version();
  host_.barrier(name_);  // all instances have written
  // All instances store the same word, so that none continues before the version is current.
  committed_->compare_exchange_strong(current, current + 1, std::memory_order_acq_rel);
  if (counter_.num_missing() == 0) counter_.restart();
}

}  // namespace lockstep::comm

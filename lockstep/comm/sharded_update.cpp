#include "lockstep/comm/sharded_update.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/base/error.h"
#include "lockstep/comm/leaf_layout.h"
#include "lockstep/comm/reduce_kernels.h"
#include "lockstep/comm/sharded_shape.h"

namespace lockstep::comm {
using namespace sharded;  // NOLINT(google-build-using-namespace): half of this file

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
  const auto element = [&](std::size_t block) {
    return block < shape.blocks.size() ? shape.blocks[block] : shape.count;
  };
  return {element(begin), element(end) - element(begin)};
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

/// Hosts that have committed one version more than another go back to that one. What is there at
/// all is kept on every host.
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

/// Everybody takes part, for somebody may not have it. It is committed when all of it is there: a
/// host that dies over it must not be taken for one that has it.
void ShardedUpdate::take_version_from(int source, std::uint64_t version) {
  if (communicator_.is_leader()) {
    send_to_hosts(source, version);
    committed_->store(version, std::memory_order_release);
  }
  host_.barrier(name_);
}

/// Between leaders.
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
  const auto stride =
      whole_lines(static_cast<std::size_t>(leaf_count()) * sizeof(float)) / sizeof(float);
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

void ShardedUpdate::initialize(const std::function<void(std::byte*)>& write) {
  const auto next = version() + 1;
  if (communicator_.rank() == 0) write(state_of(next));
  if (communicator_.num_hosts() > 1 && communicator_.is_leader()) send_to_hosts(0, next);
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
  static_cast<void>(leaf());  // where there is none, it says so
  const auto buckets = sums_ ? sums_->buckets() : std::span<const hosts::Bucket>();
  if (buckets.empty()) take_elements(0, leaf_count());
  for (auto bucket = num_taken_early_; bucket < buckets.size(); ++bucket) {
    take_elements(buckets[bucket].first, buckets[bucket].count);
    if (is_at_last_leaf()) sums_->hand_in(bucket);
  }
  num_taken_early_ = 0;
  counter_.take();
}

/// Folds some elements of the leaf that is next, which is taken when all of them are.
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

/// Blocks are dealt out whole, by where they begin, in about equal numbers of elements.
ShardedUpdate::BlockRange ShardedUpdate::my_blocks() const {
  const auto [begin, end] = slice_blocks(shape_, host_.rank(), host_.size());
  return {begin, end};
}

std::int64_t ShardedUpdate::first_element(std::size_t block) const {
  return block < shape_.blocks.size() ? shape_.blocks[block] : shape_.count;
}

/// What is measured first stays: the sum takes the place of this instance's first node, of which
/// nobody else reads these blocks; or it is there already.
std::span<float> ShardedUpdate::sum_of(BlockRange blocks) const {
  const auto first = first_element(blocks.begin);
  auto* node = sums_ ? sum_ : buffer(host_.rank(), counter_.held().front().buffer);
  return {node + first, static_cast<std::size_t>(first_element(blocks.end) - first)};
}

std::vector<NodeData> ShardedUpdate::nodes_from(std::int64_t first) const {
  std::vector<NodeData> nodes;
  for (const auto& of_rank : nodes_) {
    for (const auto* data : of_rank) nodes.push_back({data + first, DataType::F32});
  }
  return nodes;
}

/// Into memory of this instance: the others read the nodes too.
void ShardedUpdate::reduce_totals() {
  if (totals_.empty()) return;
  if (sums_) {
    std::copy_n(sum_ + shape_.count, totals_.size(), totals_.begin());
    return;
  }
  const auto nodes = nodes_from(shape_.count);
  reducer_->reduce(nodes, totals_.size(), DataType::F32, totals_.data(), DataType::F32);
}

void ShardedUpdate::reduce(std::size_t block, const Step& step, std::span<float> sum) {
  const auto first = first_element(block);
  if (!sums_) {
    const auto nodes = nodes_from(first);
    reducer_->reduce(nodes, sum.size(), DataType::F32, sum.data(), DataType::F32);
  }
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
  wait_for_leaves(step);
  if (sums_) wait_for_sums(step);
  reduce_totals();
  if (step.check) step.check(totals_);
  update_slice(step);
  const events::TimedWait wait(step.spans, step.number);
  commit();
  counter_.restart();
}

void ShardedUpdate::update_slice(const Step& step) {
  const events::TimedScope update(step.spans, events::SpanKind::Update, step.number);
  write_slice(step);
  if (step.end_updates) step.end_updates();
  if (step.finish && host_.rank() == 0) {
    step.finish(part_of({0, 0}, {}));
  }
}

void ShardedUpdate::wait_for_leaves(const Step& step) {
  const events::TimedWait wait(step.spans, step.number);
  host_.barrier(name_);  // every leaf is there
}

void ShardedUpdate::wait_for_sums(const Step& step) {
  const events::TimedScope reduce(step.spans, events::SpanKind::Reduce, step.number);
  const auto begin = events::monotonic_nanoseconds();
  if (communicator_.is_leader()) sums_->wait();
  host_.barrier(name_);  // the sums of all hosts are there
  waited_for_hosts_ = 1e-9 * static_cast<double>(events::monotonic_nanoseconds() - begin);
}

void ShardedUpdate::write_slice(const Step& step) {
  const auto mine = my_blocks();
  if (!step.measures.empty()) return measure_and_update(step, mine);
  for (auto block = mine.begin; block < mine.end; ++block) {
    const auto sum = sums_ ? sum_of({block, block + 1}) : scratch_for(block);
    reduce(block, step, sum);
    step.update(part_of({block, block + 1}, sum));
  }
}

std::span<float> ShardedUpdate::scratch_for(std::size_t block) {
  block_sum_.resize(static_cast<std::size_t>(first_element(block + 1) - first_element(block)));
  return block_sum_;
}

void ShardedUpdate::measure_and_update(const Step& step, BlockRange mine) {
  const auto width = static_cast<std::size_t>(shape_.values_per_block);
  std::fill(measured_ + mine.begin * width, measured_ + mine.end * width, 0.0);
  for (auto block = mine.begin; block < mine.end; ++block) {
    reduce(block, step, sum_of({block, block + 1}));
    measure_block(block, step.measures.front());
  }
  for (std::size_t i = 1; i < step.measures.size(); ++i) {
    host_.barrier(name_);  // the measurement before is there
    for (auto block = mine.begin; block < mine.end; ++block) {
      measure_block(block, step.measures[i]);
    }
  }
  host_.barrier(name_);  // everything is measured
  if (mine.begin < mine.end) step.update(part_of(mine, sum_of(mine)));
}

void ShardedUpdate::commit() {
  auto current = version();
  host_.barrier(name_);  // everything is written
  // Everybody commits: it is the same word, and nobody goes on before it is there.
  committed_->compare_exchange_strong(current, current + 1, std::memory_order_acq_rel);
}

}  // namespace lockstep::comm

#include "lockstep/comm/sharded_shape.h"

#include <fmt/format.h>

#include <algorithm>

#include "lockstep/base/error.h"
#include "lockstep/base/fnv.h"
#include "lockstep/comm/leaf_counter.h"

namespace lockstep::comm::sharded {
namespace {

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

}  // namespace

void check_shape(const ShardedUpdate::Shape& shape, const std::string& name) {
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
  if (shape.num_early < 0 || shape.num_early > shape.count) {
    refuse(fmt::format("expected 0 to {} elements that come early, found {}", shape.count,
                       shape.num_early));
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

std::vector<hosts::Bucket> buckets_of(const ShardedUpdate::Shape& shape) {
  return hosts::cut_into_buckets(shape.num_early, shape.count + shape.num_totals);
}

std::size_t bytes_for_hosts(const ShardedUpdate::Shape& shape, int num_hosts) {
  if (num_hosts == 1) return 0;
  return leaf_bytes_of(shape) + whole_lines(buckets_of(shape).size() * sizeof(std::uint64_t));
}

std::size_t attempt_bytes_of(const ShardedUpdate::Shape& shape, std::span<const LeafRange> ranges) {
  std::size_t num_buffers = 0;
  for (const auto& range : ranges) num_buffers += static_cast<std::size_t>(num_buffers_for(range));
  return measured_bytes_of(shape) + num_buffers * leaf_bytes_of(shape);
}

std::size_t kept_bytes_of(const ShardedUpdate::Shape& shape) {
  return kLine + 2 * whole_lines(shape.state_bytes) + whole_lines(shape.common_bytes);
}

std::pair<std::size_t, std::size_t> slice_blocks(const ShardedUpdate::Shape& shape, int rank,
                                                 int size) {
  const auto first_from = [&](std::int64_t next) {
    const auto element = shape.count * next / size;
    const auto found = std::lower_bound(shape.blocks.begin(), shape.blocks.end(), element);
    return static_cast<std::size_t>(found - shape.blocks.begin());
  };
  return {first_from(rank), first_from(rank + 1)};
}

}  // namespace lockstep::comm::sharded

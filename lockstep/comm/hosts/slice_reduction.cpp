#include "lockstep/comm/hosts/slice_reduction.h"

#include <algorithm>

namespace lockstep::comm::hosts {
namespace {

/// Of the result, that one host combines at a time: little enough to be in a cache when it has
/// arrived, much more than what a line holds.
constexpr std::size_t kSliceBytes = std::size_t{1} << 20;
/// Up to here a journey costs more than sending everything to everybody.
constexpr std::size_t kAtOnceBytes = std::size_t{32} << 10;
/// Slices begin at whole cache lines, whatever the type.
constexpr std::size_t kAlignment = 64;

const std::byte* element(const void* data, std::size_t index, DataType type) {
  return static_cast<const std::byte*>(data) + index * size_of(type);
}

std::byte* element(void* data, std::size_t index, DataType type) {
  return static_cast<std::byte*>(data) + index * size_of(type);
}

struct PlacedNode {
  TreeNode node;
  int host;
  std::size_t index;
};

std::vector<PlacedNode> in_order(const std::vector<std::vector<SliceReduction::Node>>& by_host) {
  std::vector<PlacedNode> all;
  for (std::size_t host = 0; host < by_host.size(); ++host) {
    for (std::size_t i = 0; i < by_host[host].size(); ++i) {
      all.push_back({by_host[host][i].node, static_cast<int>(host), i});
    }
  }
  std::ranges::sort(all, {}, [](const PlacedNode& placed) { return placed.node.first; });
  return all;
}

ReductionTree tree_of(const SliceReduction::Shape& shape) {
  std::vector<TreeNode> nodes;
  for (const auto& placed : in_order(shape.nodes)) nodes.push_back(placed.node);
  return {nodes, shape.num_leaves};
}

}  // namespace

SliceReduction::SliceReduction(Shape shape, std::vector<std::byte>& room, Exchange exchange)
    : shape_(std::move(shape)),
      room_(room),
      exchange_(std::move(exchange)),
      reducer_(tree_of(shape_), shape_.op),
      received_(shape_.nodes.size()) {
  for (const auto& placed : in_order(shape_.nodes)) {
    sources_.push_back({placed.host, placed.index});
  }
  data_.resize(sources_.size());
}

SliceReduction::Range SliceReduction::slice_of(Range chunk, int host) const noexcept {
  const auto hosts = static_cast<std::size_t>(num_hosts());
  const auto length = (chunk.count() + hosts - 1) / hosts;
  const auto step = (length + kAlignment - 1) / kAlignment * kAlignment;
  const auto begin = std::min(chunk.count(), static_cast<std::size_t>(host) * step);
  return {chunk.begin + begin, chunk.begin + std::min(chunk.count(), begin + step)};
}

std::size_t SliceReduction::bytes_of_others(std::size_t count) const {
  std::size_t bytes = 0;
  for (int host = 0; host < num_hosts(); ++host) {
    if (host == shape_.host) continue;
    for (const auto& node : shape_.nodes[static_cast<std::size_t>(host)]) {
      bytes += (count * size_of(node.type) + kAlignment - 1) / kAlignment * kAlignment;
    }
  }
  return bytes;
}

void SliceReduction::add_sends(std::span<const void* const> mine, int to, Range range) {
  const auto& nodes = shape_.nodes[static_cast<std::size_t>(shape_.host)];
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    sends_.push_back(
        {to,
         {element(mine[i], range.begin, nodes[i].type), range.count() * size_of(nodes[i].type)}});
  }
}

void SliceReduction::add_receives(Range range) {
  room_.resize(std::max(room_.size(), bytes_of_others(range.count())));
  auto* next = room_.data();
  for (int host = 0; host < num_hosts(); ++host) {
    auto& received = received_[static_cast<std::size_t>(host)];
    received.clear();
    if (host == shape_.host) continue;
    for (const auto& node : shape_.nodes[static_cast<std::size_t>(host)]) {
      const auto bytes = range.count() * size_of(node.type);
      receives_.push_back({host, {next, bytes}});
      received.push_back(next);
      next += (bytes + kAlignment - 1) / kAlignment * kAlignment;
    }
  }
}

/// The results of a chunk: mine to everybody, everybody's to me.
void SliceReduction::add_results(std::byte* result, Range chunk) {
  const auto bytes_of = [&](Range range) {
    return std::span(element(result, range.begin, shape_.type),
                     range.count() * size_of(shape_.type));
  };
  for (int host = 0; host < num_hosts(); ++host) {
    if (host == shape_.host) continue;
    sends_.push_back({host, bytes_of(slice_of(chunk, shape_.host))});
    receives_.push_back({host, bytes_of(slice_of(chunk, host))});
  }
}

void SliceReduction::exchange() {
  exchange_(sends_, receives_);
  sends_.clear();
  receives_.clear();
}

void SliceReduction::combine(std::span<const void* const> mine, Range range, void* result) {
  for (std::size_t i = 0; i < sources_.size(); ++i) {
    const auto [host, index] = sources_[i];
    const auto type = shape_.nodes[static_cast<std::size_t>(host)][index].type;
    data_[i] = {host == shape_.host ? element(mine[index], range.begin, type)
                                    : received_[static_cast<std::size_t>(host)][index],
                type};
  }
  reducer_.reduce(data_, range.count(), shape_.type, result, shape_.type);
}

void SliceReduction::all_reduce_at_once(std::span<const void* const> mine, std::size_t count,
                                        void* result) {
  const Range all{0, count};
  for (int host = 0; host < num_hosts(); ++host) {
    if (host != shape_.host) add_sends(mine, host, all);
  }
  add_receives(all);
  exchange();
  combine(mine, all, result);
}

void SliceReduction::all_reduce(std::span<const void* const> mine, std::size_t count,
                                void* result) {
  if (count * size_of(shape_.type) <= kAtOnceBytes) return all_reduce_at_once(mine, count, result);
  const auto chunk_count =
      kSliceBytes / size_of(shape_.type) * static_cast<std::size_t>(num_hosts());
  const auto chunks = (count + chunk_count - 1) / chunk_count;
  const auto chunk_at = [&](std::size_t index) {
    return Range{index * chunk_count, std::min(count, (index + 1) * chunk_count)};
  };
  auto* const bytes = static_cast<std::byte*>(result);
  for (std::size_t i = 0; i <= chunks; ++i) {
    if (i > 0) add_results(bytes, chunk_at(i - 1));
    if (i == chunks) return exchange();
    for (int host = 0; host < num_hosts(); ++host) {
      if (host != shape_.host) add_sends(mine, host, slice_of(chunk_at(i), host));
    }
    const auto own = slice_of(chunk_at(i), shape_.host);
    add_receives(own);
    exchange();
    combine(mine, own, element(bytes, own.begin, shape_.type));
  }
}

void SliceReduction::reduce_scatter(std::span<const void* const> mine,
                                    std::span<const std::size_t> bounds, void* result) {
  const auto range_of = [&](int host) {
    return Range{bounds[static_cast<std::size_t>(host)],
                 bounds[static_cast<std::size_t>(host) + 1]};
  };
  for (int host = 0; host < num_hosts(); ++host) {
    if (host != shape_.host) add_sends(mine, host, range_of(host));
  }
  add_receives(range_of(shape_.host));
  exchange();
  combine(mine, range_of(shape_.host), result);
}

}  // namespace lockstep::comm::hosts

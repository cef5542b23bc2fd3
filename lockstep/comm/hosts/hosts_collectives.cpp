#include <algorithm>
#include <cstring>

#include "lockstep/comm/hosts/hosts_transport.h"
#include "lockstep/comm/hosts/node_combiner.h"
#include "lockstep/comm/hosts/parts_by_host.h"

namespace lockstep::comm::hosts {
namespace {

/// What a leader takes of all instances of its host at a time.
constexpr std::size_t kChunk = std::size_t{4} << 20;
/// Up to here a second journey costs more than sending everything from one host to all.
constexpr std::size_t kSmall = std::size_t{64} << 10;

/// How many bytes of each of several rows to take at a time.
std::size_t part_of_chunk(std::size_t rows) {
  constexpr std::size_t kAlignment = 64;
  return std::max(kAlignment, kChunk / rows / kAlignment * kAlignment);
}

template <typename AnyBuffer>
auto* bytes_at(const AnyBuffer& buffer, std::size_t offset) {
  using Byte = std::conditional_t<std::is_same_v<AnyBuffer, Buffer>, std::byte, const std::byte>;
  return static_cast<Byte*>(buffer.data) + offset;
}

/// Calls `function(begin, length)` for one part of a row after another.
template <typename Function>
void for_parts(std::size_t length, std::size_t part, Function function) {
  for (std::size_t begin = 0; begin < length; begin += part) {
    function(begin, std::min(part, length - begin));
  }
}

Operation local_operation(OperationKind kind, int root) {
  Operation operation;
  operation.kind = kind;
  operation.root = root;
  return operation;
}

Buffer bytes_of_memory(void* data, std::size_t bytes) {
  return {data, static_cast<std::int64_t>(bytes), DataType::U8};
}

ConstBuffer bytes_of_memory(const void* data, std::size_t bytes) {
  return {data, static_cast<std::int64_t>(bytes), DataType::U8};
}

LeafLayout one_leaf_each(std::size_t size) {
  return LeafLayout(std::vector<int>(size, 1));
}

}  // namespace

void HostsTransport::collect(const void* block, std::size_t bytes, std::byte* blocks) {
  auto operation = local_operation(OperationKind::Gather, 0);
  operation.inputs.push_back(bytes_of_memory(block, bytes));
  if (is_leader()) {
    operation.outputs.push_back(bytes_of_memory(blocks, bytes * layout_.local_size()));
  }
  local_.run(operation);
}

void HostsTransport::spread(void* data, std::size_t bytes, int from) {
  if (layout_.local_size() == 1) return;
  auto operation = local_operation(OperationKind::Broadcast, from);
  operation.outputs.push_back(bytes_of_memory(data, bytes));
  local_.run(operation);
}

void HostsTransport::hand_out(const std::byte* blocks, std::size_t bytes, void* block) {
  auto operation = local_operation(OperationKind::Scatter, 0);
  operation.outputs.push_back(bytes_of_memory(block, bytes));
  if (is_leader()) {
    operation.inputs.push_back(
        bytes_of_memory(static_cast<const void*>(blocks), bytes * layout_.local_size()));
  }
  local_.run(operation);
}

void HostsTransport::meet() {
  if (layout_.local_size() > 1) local_.run(local_operation(OperationKind::Barrier, -1));
}

SliceReduction HostsTransport::make_reduction(const LeafLayout& leaves, ReduceOp op,
                                              DataType type) {
  SliceReduction::Shape shape{
      .host = layout_.host, .nodes = {}, .num_leaves = leaves.num_leaves, .op = op, .type = type};
  for (const auto& ranks : layout_.ranks) {
    auto& nodes = shape.nodes.emplace_back();
    for (const auto& [node, parts] : nodes_of_host(leaves, ranks)) {
      nodes.push_back({node, type_of_node(node, type)});
    }
  }
  return {std::move(shape), received_,
          [this](auto sends, auto receives) { exchange(sends, receives); }};
}

/// Element by element, so buffers of one type are one row.
void HostsTransport::all_reduce(const Operation& operation) {
  const auto leaves = one_leaf_each(layout_.size());
  std::vector<ElementRow> rows;
  for (const auto& buffer : operation.outputs) {
    auto row = std::ranges::find(rows, buffer.type, &ElementRow::type);
    if (row == rows.end()) row = rows.insert(rows.end(), ElementRow(buffer.type));
    row->add(buffer);
  }
  for (const auto& row : rows) {
    reduce_row(leaves, operation.op, row,
               [&](std::size_t, std::size_t begin, std::size_t count, std::byte* room) {
                 const auto* elements = row.find(begin, count);
                 if (elements == nullptr) row.copy_to(room, begin, count);
                 return elements == nullptr ? room : elements;
               });
  }
}

void HostsTransport::all_reduce_leaves(const Operation& operation) {
  std::vector<std::int32_t> counts(layout_.size());
  if (is_leader()) exchange_leaf_counts(counts);
  spread(counts.data(), counts.size() * sizeof(counts.front()));
  const LeafLayout leaves(counts);
  const auto mine = leaves.ranges[static_cast<std::size_t>(rank())];
  const auto nodes = nodes_of(mine);
  LeafFolder folder(mine, operation.op);
  ElementRow result(operation.outputs.front().type);
  result.add(operation.outputs.front());
  reduce_row(leaves, operation.op, result,
             [&](std::size_t node, std::size_t begin, std::size_t count,
                 std::byte* room) -> const std::byte* {
               if (nodes[node].width == 1) {
                 const auto leaf = static_cast<std::size_t>(nodes[node].first - mine.first);
                 return bytes_at(operation.inputs[leaf], begin * size_of(result.type()));
               }
               folder.fold(node, operation.inputs, begin, count, room);
               return room;
             });
}

void HostsTransport::reduce_row(const LeafLayout& leaves, ReduceOp op, const ElementRow& result,
                                const Brought& brought) {
  const auto type = result.type();
  const auto width = size_of(accumulator_of(type));
  // The same on all hosts. Leaves that lie where they are sent from need no room.
  const bool is_direct = layout_.most_local == 1 && result.is_one_buffer() &&
                         leaves.num_leaves == static_cast<int>(layout_.size());
  const auto part =
      is_direct ? result.count() : part_of_chunk(layout_.most_local * leaves.most_nodes) / width;
  NodeCombiner combiner(leaves, layout_, op, type);
  auto reduction = make_reduction(leaves, op, type);
  const auto run = [&](std::size_t begin, std::size_t count) {
    const auto collected = collect_nodes(
        leaves, type, is_direct ? 0 : count * width,
        [&](std::size_t node, std::byte* room) { return brought(node, begin, count, room); });
    const auto bytes = count * size_of(type);
    auto* const in_place = result.find(begin, count);
    auto* const target = in_place != nullptr ? in_place : room_of(result_, bytes);
    if (is_leader()) {
      const auto nodes = combiner.combine(count, combined_, [&](int local, std::size_t index) {
        return collected[static_cast<std::size_t>(local) * leaves.most_nodes + index];
      });
      reduction.all_reduce(nodes, count, target);
    }
    spread(target, bytes);
    if (in_place == nullptr) result.copy_from(target, begin, count);
  };
  for_parts(result.count(), part, run);
}

/// Where the leader finds a part of all nodes of its host's instances: by instance, then node. They
/// lie `stride` bytes from each other, but for those of an instance that is alone on its host.
std::vector<const std::byte*> HostsTransport::collect_nodes(const LeafLayout& leaves, DataType type,
                                                            std::size_t stride,
                                                            const BroughtPart& brought) {
  const auto own = nodes_of(leaves.ranges[static_cast<std::size_t>(rank())]);
  const auto block = leaves.most_nodes * stride;
  const bool is_alone = layout_.local_size() == 1;
  auto* const mine = room_of(brought_, block);
  std::vector<const std::byte*> found;
  for (std::size_t node = 0; node < own.size(); ++node) {
    auto* const room = mine + node * stride;
    found.push_back(brought(node, room));
    if (is_alone || found.back() == room) continue;
    const auto count = stride / size_of(accumulator_of(type));
    std::memcpy(room, found.back(), count * size_of(type_of_node(own[node], type)));
  }
  if (is_alone) return found;
  auto* const all = is_leader() ? room_of(collected_, block * layout_.local_size()) : nullptr;
  collect(mine, block, all);
  found.clear();
  if (!is_leader()) return found;
  for (std::size_t i = 0; i < layout_.local_size() * leaves.most_nodes; ++i) {
    found.push_back(all + i * stride);
  }
  return found;
}

void HostsTransport::exchange_leaf_counts(std::span<std::int32_t> counts) {
  // Host by host, then by rank.
  std::vector<std::int32_t> by_host(layout_.size());
  const auto of_host = [&](int host) {
    const auto index = static_cast<std::size_t>(host);
    return std::as_writable_bytes(
        std::span(by_host).subspan(layout_.first_blocks[index], layout_.ranks[index].size()));
  };
  std::ranges::copy(
      local_.channel().leaf_counts(),
      by_host.begin() + static_cast<std::ptrdiff_t>(
                            layout_.first_blocks[static_cast<std::size_t>(layout_.host)]));
  std::vector<Fabric::Send> sends;
  std::vector<Fabric::Receive> receives;
  for_other_hosts([&](int host) {
    sends.push_back({host, of_host(layout_.host)});
    receives.push_back({host, of_host(host)});
  });
  exchange(sends, receives);
  auto next = by_host.begin();
  for (const auto& ranks : layout_.ranks) {
    for (const int rank : ranks) counts[static_cast<std::size_t>(rank)] = *next++;
  }
}

std::vector<std::vector<SliceReduction::Node>> HostsTransport::exchange_nodes(
    const Operation& operation) {
  exchange({}, {});  // calls say how many there are, and which, where there are few
  std::vector<std::vector<TreeNode>> nodes(calls_.size());
  std::vector<Fabric::Send> sends;
  std::vector<Fabric::Receive> receives;
  const bool are_many = operation.nodes.size() > Call::kMostNodes;
  for_other_hosts([&](int host) {
    const auto& call = calls_[static_cast<std::size_t>(host)];
    auto& theirs = nodes[static_cast<std::size_t>(host)];
    theirs.resize(static_cast<std::size_t>(call.num_nodes));
    if (are_many) sends.push_back({host, std::as_bytes(std::span(operation.nodes))});
    if (theirs.size() > Call::kMostNodes) {
      receives.push_back({host, std::as_writable_bytes(std::span(theirs))});
    } else {
      std::copy_n(call.nodes.begin(), theirs.size(), theirs.begin());
    }
  });
  exchange(sends, receives);
  nodes[static_cast<std::size_t>(layout_.host)] = operation.nodes;
  std::vector<std::vector<SliceReduction::Node>> found;
  for (const auto& of_host : nodes) {
    auto& typed = found.emplace_back();
    for (const auto& node : of_host) typed.push_back({node, operation.outputs.front().type});
  }
  return found;
}

/// Each host has one instance here, its leader.
void HostsTransport::all_reduce_nodes(const Operation& operation) {
  const auto& result = operation.outputs.front();
  SliceReduction reduction({.host = layout_.host,
                            .nodes = exchange_nodes(operation),
                            .num_leaves = operation.num_leaves,
                            .op = operation.op,
                            .type = result.type},
                           received_,
                           [this](auto sends, auto receives) { exchange(sends, receives); });
  std::vector<const void*> mine;
  for (const auto& input : operation.inputs) mine.push_back(input.data);
  reduction.all_reduce(mine, static_cast<std::size_t>(result.count), result.data);
}

void HostsTransport::reduce_scatter(const Operation& operation) {
  const auto& blocks = operation.inputs.front();
  const auto& result = operation.outputs.front();
  const auto type = result.type;
  const auto count = static_cast<std::size_t>(result.count);
  const auto leaves = one_leaf_each(layout_.size());
  NodeCombiner combiner(leaves, layout_, operation.op, type);
  auto reduction = make_reduction(leaves, operation.op, type);
  const auto width = size_of(accumulator_of(type));
  const auto part = part_of_chunk(layout_.size() * layout_.most_local) / width;

  for_parts(count, part, [&](std::size_t begin, std::size_t length) {
    const auto bytes = length * size_of(type);
    const auto all_bytes = layout_.size() * bytes;
    const PartsByHost parts(layout_, room_of(brought_, all_bytes), bytes);
    parts.pack(bytes_at(blocks, begin * size_of(type)), bytes_of(result));
    auto* own = room_of(result_, layout_.local_size() * bytes);
    collect(parts.all().data(), all_bytes,
            is_leader() ? room_of(collected_, all_bytes * layout_.local_size()) : nullptr);
    if (is_leader()) {
      const auto nodes =
          combiner.combine(layout_.size() * length, combined_, [&](int local, std::size_t) {
            return collected_.data() + static_cast<std::size_t>(local) * all_bytes;
          });
      std::vector<std::size_t> bounds;
      for (const auto first : layout_.first_blocks) bounds.push_back(first * length);
      reduction.reduce_scatter(nodes, bounds, own);
    }
    hand_out(own, bytes, bytes_at(result, begin * size_of(type)));
  });
}

void HostsTransport::all_gather(const Operation& operation) {
  const auto& block = operation.inputs.front();
  const auto& blocks = operation.outputs.front();
  const auto run = [&](std::size_t begin, std::size_t bytes) {
    const PartsByHost parts(layout_, room_of(result_, layout_.size() * bytes), bytes);
    const auto mine = parts.of_host(layout_.host);
    collect(bytes_at(block, begin), bytes, mine.data());
    std::vector<Fabric::Send> sends;
    std::vector<Fabric::Receive> receives;
    for_other_hosts([&](int host) {
      sends.push_back({host, mine});
      receives.push_back({host, parts.of_host(host)});
    });
    exchange(sends, receives);
    spread(parts.all().data(), parts.all().size());
    parts.unpack(bytes_at(blocks, begin), bytes_of(block));
  };
  for_parts(bytes_of(block), part_of_chunk(layout_.size()), run);
}

void HostsTransport::send_to_all(int from, std::span<std::byte> bytes) {
  std::vector<Fabric::Send> sends;
  std::vector<Fabric::Receive> receives;
  if (layout_.host == from) {
    for_other_hosts([&](int host) { sends.push_back({host, bytes}); });
  } else {
    receives.push_back({from, bytes});
  }
  exchange(sends, receives);
}

void HostsTransport::pass_around(int from, std::span<std::byte> bytes) {
  std::vector<int> others;
  for (int host = 0; host < layout_.num_hosts(); ++host) {
    if (host != from) others.push_back(host);
  }
  const auto step = (bytes.size() + others.size() - 1) / others.size();
  const auto part_of = [&](std::size_t index) {
    const auto begin = std::min(bytes.size(), index * step);
    return bytes.subspan(begin, std::min(step, bytes.size() - begin));
  };
  std::vector<Fabric::Send> sends;
  std::vector<Fabric::Receive> receives;
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (layout_.host == from) sends.push_back({others[i], part_of(i)});
    if (layout_.host == others[i]) receives.push_back({from, part_of(i)});
  }
  exchange(sends, receives);
  if (layout_.host == from) return;
  const auto mine =
      static_cast<std::size_t>(std::ranges::find(others, layout_.host) - others.begin());
  sends.clear();
  receives.clear();
  for (std::size_t i = 0; i < others.size(); ++i) {
    if (i == mine) continue;
    sends.push_back({others[i], part_of(mine)});
    receives.push_back({others[i], part_of(i)});
  }
  exchange(sends, receives);
}

void HostsTransport::broadcast(const Operation& operation) {
  const auto& buffer = operation.outputs.front();
  const int from = layout_.hosts[static_cast<std::size_t>(operation.root)];
  const bool is_here = from == layout_.host;
  for_parts(bytes_of(buffer), kChunk, [&](std::size_t begin, std::size_t bytes) {
    auto* data = bytes_at(buffer, begin);
    if (is_here) spread(data, bytes, layout_.local_rank(operation.root));
    if (is_leader()) {
      const bool is_small = bytes <= kSmall || layout_.num_hosts() == 2;
      is_small ? send_to_all(from, {data, bytes}) : pass_around(from, {data, bytes});
    }
    if (!is_here) spread(data, bytes);
  });
}

void HostsTransport::gather(const Operation& operation) {
  const auto& block = operation.inputs.front();
  const int to = layout_.hosts[static_cast<std::size_t>(operation.root)];
  const bool is_here = to == layout_.host;
  const bool is_root = rank() == operation.root;
  const auto run = [&](std::size_t begin, std::size_t bytes) {
    const bool needs_room = is_root || is_leader();
    const PartsByHost parts(layout_,
                            needs_room ? room_of(result_, layout_.size() * bytes) : nullptr, bytes);
    collect(bytes_at(block, begin), bytes,
            is_leader() ? parts.of_host(layout_.host).data() : nullptr);
    std::vector<Fabric::Send> sends;
    std::vector<Fabric::Receive> receives;
    if (is_here) {
      for_other_hosts([&](int host) { receives.push_back({host, parts.of_host(host)}); });
    } else {
      sends.push_back({to, parts.of_host(layout_.host)});
    }
    exchange(sends, receives);
    const bool is_with_leader = layout_.local_rank(operation.root) == 0;
    if (is_here && !is_with_leader) spread(parts.all().data(), parts.all().size());
    if (is_root) parts.unpack(bytes_at(operation.outputs.front(), begin), bytes_of(block));
  };
  for_parts(bytes_of(block), part_of_chunk(layout_.size()), run);
}

void HostsTransport::scatter(const Operation& operation) {
  const auto& block = operation.outputs.front();
  const int from = layout_.hosts[static_cast<std::size_t>(operation.root)];
  const int local_root = layout_.local_rank(operation.root);
  const bool is_here = from == layout_.host;
  const bool is_root = rank() == operation.root;
  const auto run = [&](std::size_t begin, std::size_t bytes) {
    const bool needs_room = is_root || is_leader();
    const PartsByHost parts(layout_,
                            needs_room ? room_of(result_, layout_.size() * bytes) : nullptr, bytes);
    if (is_root) parts.pack(bytes_at(operation.inputs.front(), begin), bytes_of(block));
    if (is_here && local_root != 0) spread(parts.all().data(), parts.all().size(), local_root);
    std::vector<Fabric::Send> sends;
    std::vector<Fabric::Receive> receives;
    if (is_here) {
      for_other_hosts([&](int host) { sends.push_back({host, parts.of_host(host)}); });
    } else {
      receives.push_back({from, parts.of_host(layout_.host)});
    }
    exchange(sends, receives);
    hand_out(parts.of_host(layout_.host).data(), bytes, bytes_at(block, begin));
  };
  for_parts(bytes_of(block), part_of_chunk(layout_.size()), run);
}

}  // namespace lockstep::comm::hosts

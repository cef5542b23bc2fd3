#include <algorithm>
#include <cstring>

#include "lockstep/comm/hosts/host_nodes.h"
#include "lockstep/comm/hosts/hosts_transport.h"

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

std::byte* room_of(std::vector<std::byte>& room, std::size_t bytes) {
  if (room.size() < bytes) room.resize(bytes);
  return room.data();
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

ReduceOp partial(ReduceOp op) {
  return op == ReduceOp::Mean ? ReduceOp::Sum : op;
}

/// Combines what the instances of a host bring into the nodes that the host hands on.
class NodeCombiner {
 public:
  NodeCombiner(const LeafLayout& leaves, const HostLayout& layout, ReduceOp op, DataType type)
      : leaves_(leaves), layout_(layout), type_(type) {
    for (auto& node : nodes_of_host(leaves, layout.local_ranks())) {
      nodes_.push_back({node, node.parts.size() > 1
                                  ? std::make_unique<Reducer>(node.tree(leaves), partial(op))
                                  : nullptr});
    }
  }

  /// `part(local rank, index)` says where `count` elements of a node of an instance lie.
  template <typename Part>
  std::vector<const void*> combine(std::size_t count, std::vector<std::byte>& room, Part part) {
    const auto stride = count * size_of(accumulator_of(type_));
    auto* next = room_of(room, nodes_.size() * stride);
    std::vector<const void*> found;
    for (auto& [node, reducer] : nodes_) {
      std::vector<NodeData> data;
      for (const auto& source : node.parts) {
        const auto own = nodes_of(leaves_.ranges[static_cast<std::size_t>(source.rank)]);
        data.push_back({part(layout_.local_rank(source.rank), source.index),
                        type_of_node(own[source.index], type_)});
      }
      if (reducer) reducer->reduce(data, count, type_, next, accumulator_of(type_));
      found.push_back(reducer ? next : data.front().data);
      next += stride;
    }
    return found;
  }

 private:
  struct Entry {
    HostNode node;
    std::unique_ptr<Reducer> reducer;  ///< where there is something to combine
  };
  const LeafLayout& leaves_;
  const HostLayout& layout_;
  DataType type_;
  std::vector<Entry> nodes_;
};

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
  const auto num_nodes = nodes_of(leaves.ranges[static_cast<std::size_t>(rank())]).size();
  // The same on all hosts. Leaves that lie where they are sent from need no room.
  const bool is_direct = layout_.most_local == 1 && result.is_one_buffer() &&
                         leaves.num_leaves == static_cast<int>(layout_.size());
  const auto part =
      is_direct ? result.count() : part_of_chunk(layout_.most_local * leaves.most_nodes) / width;
  NodeCombiner combiner(leaves, layout_, op, type);
  auto reduction = make_reduction(leaves, op, type);

  for_parts(result.count(), part, [&](std::size_t begin, std::size_t count) {
    const auto stride = is_direct ? 0 : count * width;
    auto* const mine = room_of(brought_, leaves.most_nodes * stride);
    std::vector<const std::byte*> found;
    for (std::size_t node = 0; node < num_nodes; ++node) {
      found.push_back(brought(node, begin, count, mine + node * stride));
    }
    const bool is_alone = layout_.local_size() == 1;
    if (!is_alone) {
      for (std::size_t node = 0; node < num_nodes; ++node) {
        auto* room = mine + node * stride;
        const auto own = nodes_of(leaves.ranges[static_cast<std::size_t>(rank())])[node];
        if (found[node] != room) {
          std::memcpy(room, found[node], count * size_of(type_of_node(own, type)));
        }
      }
      const auto block = leaves.most_nodes * stride;
      collect(mine, block,
              is_leader() ? room_of(collected_, block * layout_.local_size()) : nullptr);
    }
    const auto bytes = count * size_of(type);
    auto* target = result.find(begin, count);
    const bool is_scattered = target == nullptr;
    if (is_scattered) target = room_of(result_, bytes);
    if (is_leader()) {
      const auto nodes = combiner.combine(count, combined_, [&](int local, std::size_t index) {
        return is_alone
                   ? found[index]
                   : collected_.data() +
                         (static_cast<std::size_t>(local) * leaves.most_nodes + index) * stride;
      });
      reduction.all_reduce(nodes, count, target);
    }
    spread(target, bytes);
    if (is_scattered) result.copy_from(target, begin, count);
  });
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
    // Host by host, so that what one host gets lies side by side.
    auto* next = room_of(brought_, all_bytes);
    for (const auto& ranks : layout_.ranks) {
      for (const int to : ranks) {
        const auto place = static_cast<std::size_t>(to) * count + begin;
        std::memcpy(next, bytes_at(blocks, place * size_of(type)), bytes);
        next += bytes;
      }
    }
    auto* own = room_of(result_, layout_.local_size() * bytes);
    collect(brought_.data(), all_bytes,
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
  for_parts(bytes_of(block), part_of_chunk(layout_.size()),
            [&](std::size_t begin, std::size_t bytes) {
              auto* all = room_of(result_, layout_.size() * bytes);
              const auto of_host = [&](int host) {
                const auto index = static_cast<std::size_t>(host);
                return std::span(all + layout_.first_blocks[index] * bytes,
                                 layout_.ranks[index].size() * bytes);
              };
              collect(bytes_at(block, begin), bytes, of_host(layout_.host).data());
              std::vector<Fabric::Send> sends;
              std::vector<Fabric::Receive> receives;
              for_other_hosts([&](int host) {
                sends.push_back({host, of_host(layout_.host)});
                receives.push_back({host, of_host(host)});
              });
              exchange(sends, receives);
              spread(all, layout_.size() * bytes);
              for (const auto& ranks : layout_.ranks) {
                for (const int from : ranks) {
                  const auto place = static_cast<std::size_t>(from) * bytes_of(block) + begin;
                  std::memcpy(bytes_at(blocks, place), all, bytes);
                  all += bytes;
                }
              }
            });
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
  for_parts(bytes_of(block), part_of_chunk(layout_.size()),
            [&](std::size_t begin, std::size_t bytes) {
              const bool needs_room = is_root || is_leader();
              auto* all = needs_room ? room_of(result_, layout_.size() * bytes) : nullptr;
              const auto of_host = [&](int host) {
                const auto index = static_cast<std::size_t>(host);
                return std::span(all + layout_.first_blocks[index] * bytes,
                                 layout_.ranks[index].size() * bytes);
              };
              collect(bytes_at(block, begin), bytes,
                      is_leader() ? of_host(layout_.host).data() : nullptr);
              std::vector<Fabric::Send> sends;
              std::vector<Fabric::Receive> receives;
              if (is_leader() && !is_here) sends.push_back({to, of_host(layout_.host)});
              if (is_leader() && is_here) {
                for_other_hosts([&](int host) { receives.push_back({host, of_host(host)}); });
              }
              exchange(sends, receives);
              if (is_here && layout_.local_rank(operation.root) != 0) {
                spread(all, layout_.size() * bytes);
              }
              if (!is_root) return;
              for (const auto& ranks : layout_.ranks) {
                for (const int from : ranks) {
                  const auto place = static_cast<std::size_t>(from) * bytes_of(block) + begin;
                  std::memcpy(bytes_at(operation.outputs.front(), place), all, bytes);
                  all += bytes;
                }
              }
            });
}

void HostsTransport::scatter(const Operation& operation) {
  const auto& block = operation.outputs.front();
  const int from = layout_.hosts[static_cast<std::size_t>(operation.root)];
  const bool is_here = from == layout_.host;
  const bool is_root = rank() == operation.root;
  for_parts(bytes_of(block), part_of_chunk(layout_.size()),
            [&](std::size_t begin, std::size_t bytes) {
              const bool needs_room = is_root || is_leader();
              auto* all = needs_room ? room_of(result_, layout_.size() * bytes) : nullptr;
              if (is_root) {
                auto* next = all;
                for (const auto& ranks : layout_.ranks) {
                  for (const int to : ranks) {
                    const auto place = static_cast<std::size_t>(to) * bytes_of(block) + begin;
                    std::memcpy(next, bytes_at(operation.inputs.front(), place), bytes);
                    next += bytes;
                  }
                }
              }
              const int local_root = layout_.local_rank(operation.root);
              if (is_here && local_root != 0) spread(all, layout_.size() * bytes, local_root);
              const auto of_host = [&](int host) {
                const auto index = static_cast<std::size_t>(host);
                return std::span(all + layout_.first_blocks[index] * bytes,
                                 layout_.ranks[index].size() * bytes);
              };
              std::vector<Fabric::Send> sends;
              std::vector<Fabric::Receive> receives;
              if (is_leader() && is_here) {
                for_other_hosts([&](int host) { sends.push_back({host, of_host(host)}); });
              }
              if (is_leader() && !is_here) receives.push_back({from, of_host(layout_.host)});
              exchange(sends, receives);
              hand_out(is_leader() ? of_host(layout_.host).data() : nullptr, bytes,
                       bytes_at(block, begin));
            });
}

}  // namespace lockstep::comm::hosts

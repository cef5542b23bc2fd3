#include "lockstep/comm/checked_operation.h"

#include <fmt/format.h>

#include "lockstep/base/error.h"

namespace lockstep::comm::checked {
namespace {

std::string title(OperationKind kind, const ConstBuffer& buffer) {
  return buffer.name.empty() ? std::string(name_of(kind))
                             : fmt::format("{} \"{}\"", name_of(kind), buffer.name);
}

void check_buffer(OperationKind kind, const ConstBuffer& buffer) {
  // Far more than any machine has, and far from where products of counts would overflow.
  constexpr auto kMost = std::int64_t{1} << 46;
  if (buffer.count < 0 || buffer.count > kMost) {
    throw Error(ErrorKind::Options, fmt::format("{}: expected a count from 0 to {}, found {}",
                                                title(kind, buffer), kMost, buffer.count));
  }
  if (reinterpret_cast<std::uintptr_t>(buffer.data) % size_of(buffer.type) != 0) {
    throw Error(ErrorKind::Options,
                fmt::format("{}: expected memory that is aligned for {}, found {}",
                            title(kind, buffer), name_of(buffer.type), buffer.data));
  }
  if (buffer.data == nullptr && buffer.count > 0) {
    throw Error(ErrorKind::Options,
                fmt::format("{}: expected memory of {} {}, found a null pointer",
                            title(kind, buffer), buffer.count, name_of(buffer.type)));
  }
}

void check_root(OperationKind kind, const ConstBuffer& buffer, int root, int size) {
  if (root >= 0 && root < size) return;
  throw Error(ErrorKind::Options, fmt::format("{}: expected a root from 0 to {}, found {}",
                                              title(kind, buffer), size - 1, root));
}

/// `all` must be `parts` times `one`.
void check_blocks(OperationKind kind, const ConstBuffer& one, const ConstBuffer& all, int parts) {
  if (one.type != all.type) {
    throw Error(ErrorKind::Options,
                fmt::format("{}: expected one type on both sides, found {} and {}",
                            title(kind, one), name_of(one.type), name_of(all.type)));
  }
  if (all.count == one.count * parts) return;
  throw Error(ErrorKind::Options,
              fmt::format("{}: expected {} blocks of {} elements, found {} elements in all",
                          title(kind, one), parts, one.count, all.count));
}

Operation make(OperationKind kind, const ConstBuffer& named) {
  Operation operation;
  operation.kind = kind;
  operation.name = named.name;
  return operation;
}

}  // namespace

Operation all_reduce(std::span<const Buffer> buffers, ReduceOp op) {
  constexpr auto kKind = OperationKind::AllReduce;
  for (const auto& buffer : buffers) check_buffer(kKind, buffer);
  auto operation = make(kKind, buffers.empty() ? Buffer{} : buffers.front());
  operation.op = op;
  operation.outputs.assign(buffers.begin(), buffers.end());
  return operation;
}

Operation all_reduce_leaves(std::span<const ConstBuffer> leaves, Buffer result, ReduceOp op) {
  constexpr auto kKind = OperationKind::AllReduce;
  check_buffer(kKind, result);
  if (leaves.empty()) {
    throw Error(ErrorKind::Options,
                fmt::format("{}: expected at least one leaf, found none", title(kKind, result)));
  }
  for (const auto& leaf : leaves) {
    check_buffer(kKind, leaf);
    check_blocks(kKind, result, leaf, 1);
  }
  auto operation = make(kKind, result);
  operation.op = op;
  operation.inputs.assign(leaves.begin(), leaves.end());
  operation.outputs.push_back(result);
  return operation;
}

Operation all_reduce_nodes(std::span<const TreeNode> nodes, std::span<const ConstBuffer> data,
                           int num_leaves, Buffer result) {
  constexpr auto kKind = OperationKind::AllReduceNodes;
  check_buffer(kKind, result);
  if (nodes.size() != data.size() || num_leaves < 1) {
    throw Error(ErrorKind::Options,
                fmt::format("{}: expected a buffer for each node, and at least one leaf, found {} "
                            "buffers for {} nodes, and {} leaves",
                            title(kKind, result), data.size(), nodes.size(), num_leaves));
  }
  for (const auto& node : data) {
    check_buffer(kKind, node);
    check_blocks(kKind, result, node, 1);
  }
  auto operation = make(kKind, result);
  operation.inputs.assign(data.begin(), data.end());
  operation.outputs.push_back(result);
  operation.nodes.assign(nodes.begin(), nodes.end());
  operation.num_leaves = num_leaves;
  return operation;
}

Operation reduce_scatter(ConstBuffer blocks, Buffer result, ReduceOp op, int size) {
  constexpr auto kKind = OperationKind::ReduceScatter;
  check_buffer(kKind, blocks);
  check_buffer(kKind, result);
  check_blocks(kKind, result, blocks, size);
  auto operation = make(kKind, blocks);
  operation.op = op;
  operation.inputs.push_back(blocks);
  operation.outputs.push_back(result);
  return operation;
}

Operation all_gather(ConstBuffer block, Buffer blocks, int size) {
  constexpr auto kKind = OperationKind::AllGather;
  check_buffer(kKind, block);
  check_buffer(kKind, blocks);
  check_blocks(kKind, block, blocks, size);
  auto operation = make(kKind, block);
  operation.inputs.push_back(block);
  operation.outputs.push_back(blocks);
  return operation;
}

Operation barrier(std::string_view name) {
  Operation operation;
  operation.name = name;
  return operation;
}

Operation broadcast(Buffer buffer, int root, int size) {
  constexpr auto kKind = OperationKind::Broadcast;
  check_buffer(kKind, buffer);
  check_root(kKind, buffer, root, size);
  auto operation = make(kKind, buffer);
  operation.root = root;
  operation.outputs.push_back(buffer);
  return operation;
}

Operation gather(ConstBuffer block, Buffer blocks, Rooted place) {
  constexpr auto kKind = OperationKind::Gather;
  check_buffer(kKind, block);
  check_root(kKind, block, place.root, place.size);
  auto operation = make(kKind, block);
  operation.root = place.root;
  operation.inputs.push_back(block);
  if (place.rank == place.root) {
    check_buffer(kKind, blocks);
    check_blocks(kKind, block, blocks, place.size);
    operation.outputs.push_back(blocks);
  }
  return operation;
}

Operation scatter(ConstBuffer blocks, Buffer block, Rooted place) {
  constexpr auto kKind = OperationKind::Scatter;
  check_buffer(kKind, block);
  check_root(kKind, block, place.root, place.size);
  auto operation = make(kKind, block);
  operation.root = place.root;
  operation.outputs.push_back(block);
  if (place.rank == place.root) {
    check_buffer(kKind, blocks);
    check_blocks(kKind, block, blocks, place.size);
    operation.inputs.push_back(blocks);
  }
  return operation;
}

}  // namespace lockstep::comm::checked

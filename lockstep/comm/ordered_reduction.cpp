#include "lockstep/comm/ordered_reduction.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "lockstep/base/error.h"
#include "lockstep/comm/reduce_kernels.h"

namespace lockstep::comm {
namespace {

/// Elements that are taken through the whole tree at a time, so that temporaries stay in the
/// nearest cache.
constexpr std::size_t kTile = 1024;

const std::byte* element(const void* data, std::size_t index, DataType type) {
  return static_cast<const std::byte*>(data) + index * size_of(type);
}

std::byte* element(void* data, std::size_t index, DataType type) {
  return static_cast<std::byte*>(data) + index * size_of(type);
}

}  // namespace

std::vector<TreeNode> nodes_of(LeafRange range) {
  std::vector<TreeNode> nodes;
  const int end = range.first + range.count;
  for (int first = range.first; first < end;) {
    int width = 1;
    while (first % (2 * width) == 0 && first + 2 * width <= end) width *= 2;
    nodes.push_back({first, width});
    first += width;
  }
  return nodes;
}

ReductionTree::ReductionTree(std::span<const TreeNode> nodes, int num_leaves)
    : num_nodes_(static_cast<int>(nodes.size())), num_leaves_(num_leaves) {
  const auto width = static_cast<int>(std::bit_ceil(static_cast<unsigned>(num_leaves)));
  build(nodes, {0, width}, 0);
  if (next_node_ != num_nodes_) {
    throw Error(ErrorKind::Bug, fmt::format("ReductionTree: {} of {} nodes fit {} leaves",
                                            next_node_, num_nodes_, num_leaves));
  }
}

/// Returns the value that holds `node`. Temporaries below `depth` are in use.
int ReductionTree::build(std::span<const TreeNode> nodes, TreeNode node, int depth) {
  if (next_node_ < num_nodes_ && nodes[static_cast<std::size_t>(next_node_)] == node) {
    return next_node_++;
  }
  const int half = node.width / 2;
  if (half == 0) {
    throw Error(ErrorKind::Bug, fmt::format("ReductionTree: leaf {} is missing", node.first));
  }
  const int left = build(nodes, {node.first, half}, depth);
  if (node.first + half >= num_leaves_) return left;
  // The left half's result, if it is a temporary, is the one at `depth`.
  const int right = build(nodes, {node.first + half, half}, left >= num_nodes_ ? depth + 1 : depth);
  num_temporaries_ = std::max(num_temporaries_, depth + 1);
  steps_.push_back({left, right, depth});
  return num_nodes_ + depth;
}

DataType accumulator_of(DataType type) noexcept {
  switch (type) {
    case DataType::F16:
    case DataType::BF16:
    case DataType::F32:
      return DataType::F32;
    case DataType::F64:
      return DataType::F64;
    case DataType::I32:
    case DataType::I64:
    case DataType::U8:
      return DataType::I64;
  }
  return type;
}

Reducer::Reducer(ReductionTree tree, ReduceOp op)
    : tree_(std::move(tree)),
      op_(op),
      // One for each temporary, two for nodes that must be widened, one for the result.
      temporaries_(static_cast<std::size_t>(tree_.num_temporaries() + 3) * kTile) {}

void Reducer::reduce(std::span<const NodeData> nodes, std::size_t count, DataType type,
                     void* result, DataType result_type, void* duplicate) {
  const auto accumulator = accumulator_of(type);
  for (std::size_t begin = 0; begin < count; begin += kTile) {
    const auto length = std::min(kTile, count - begin);
    auto* tile = element(result, begin, result_type);
    reduce_tile(nodes, begin, length, accumulator, tile, result_type);
    if (duplicate == nullptr) continue;
    std::memcpy(element(duplicate, begin, result_type), tile, length * size_of(result_type));
  }
}

void Reducer::reduce_tile(std::span<const NodeData> nodes, std::size_t begin, std::size_t count,
                          DataType accumulator, void* result, DataType result_type) {
  double* const widened = temporaries_.data();
  double* const temporaries = widened + 2 * kTile;
  double* const finished = temporaries + static_cast<std::size_t>(tree_.num_temporaries()) * kTile;

  const auto value = [&](int index, double* room) -> const void* {
    if (index >= tree_.num_nodes()) {
      return temporaries + static_cast<std::size_t>(index - tree_.num_nodes()) * kTile;
    }
    const auto& node = nodes[static_cast<std::size_t>(index)];
    const auto* data = element(node.data, begin, node.type);
    if (node.type == accumulator) return data;
    kernels::widen(node.type, data, room, count);
    return room;
  };

  // Where the last value is an accumulator already, it is written where it belongs at once.
  void* const last = result_type == accumulator ? result : finished;
  const auto steps = tree_.steps();
  for (const auto& step : steps) {
    const auto* left = value(step.left, widened);
    const auto* right = value(step.right, widened + kTile);
    void* out = &step == &steps.back()
                    ? last
                    : temporaries + static_cast<std::size_t>(step.temporary) * kTile;
    kernels::combine(op_, accumulator, left, right, out, count);
  }
  if (steps.empty()) {
    const auto* only = value(0, widened);
    if (only != last) std::memmove(last, only, count * size_of(accumulator));
  }
  if (op_ == ReduceOp::Mean) kernels::divide(accumulator, last, tree_.num_leaves(), count);
  if (last != result) kernels::narrow(result_type, last, result, count);
}

}  // namespace lockstep::comm

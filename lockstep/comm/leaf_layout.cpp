#include "lockstep/comm/leaf_layout.h"

#include <algorithm>

namespace lockstep::comm {
namespace {

ReductionTree tree_over_leaves(int count) {
  std::vector<TreeNode> leaves;
  for (int leaf = 0; leaf < count; ++leaf) leaves.push_back({leaf, 1});
  return {leaves, count};
}

}  // namespace

LeafLayout::LeafLayout(std::span<const int> counts) {
  for (const int count : counts) {
    const auto rank = static_cast<int>(ranges.size());
    const LeafRange range{num_leaves, count};
    const auto own = nodes_of(range);
    for (std::size_t index = 0; index < own.size(); ++index) {
      nodes.push_back(own[index]);
      sources.push_back({rank, index});
    }
    most_nodes = std::max(most_nodes, own.size());
    ranges.push_back(range);
    num_leaves += count;
  }
}

LeafFolder::LeafFolder(LeafRange leaves, ReduceOp op) {
  const auto partial = op == ReduceOp::Mean ? ReduceOp::Sum : op;
  for (const auto& node : nodes_of(leaves)) {
    nodes_.push_back({static_cast<std::size_t>(node.first - leaves.first),
                      static_cast<std::size_t>(node.width),
                      Reducer(tree_over_leaves(node.width), partial)});
  }
}

void LeafFolder::fold(std::size_t index, std::span<const ConstBuffer> leaves, std::size_t begin,
                      std::size_t count, void* node) {
  auto& own = nodes_[index];
  std::vector<NodeData> data;
  for (const auto& leaf : leaves.subspan(own.first_leaf, own.num_leaves)) {
    data.push_back(
        {static_cast<const std::byte*>(leaf.data) + begin * size_of(leaf.type), leaf.type});
  }
  const auto type = leaves.front().type;
  own.reducer.reduce(data, count, type, node, accumulator_of(type));
}

}  // namespace lockstep::comm

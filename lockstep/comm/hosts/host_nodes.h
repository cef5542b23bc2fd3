#pragma once

#include <span>
#include <vector>

#include "lockstep/comm/leaf_layout.h"

namespace lockstep::comm::hosts {

/// A node that a host hands on, and the nodes of its instances that it is made of, ascending.
struct HostNode {
  TreeNode node;
  std::vector<LeafLayout::Source> parts;

  /// How the parts are combined.
  ReductionTree tree(const LeafLayout& layout) const;
};

/// The largest nodes that the instances of one host can make together; they need not be
/// neighbours.
std::vector<HostNode> nodes_of_host(const LeafLayout& layout, std::span<const int> ranks);

/// In what a node travels: a leaf as it is, so that it takes no more room than it did before.
inline DataType type_of_node(const TreeNode& node, DataType type) noexcept {
  return node.width == 1 ? type : accumulator_of(type);
}

}  // namespace lockstep::comm::hosts

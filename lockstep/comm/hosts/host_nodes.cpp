#include "lockstep/comm/hosts/host_nodes.h"

namespace lockstep::comm::hosts {
namespace {

/// The leaves of a host in as few ranges as possible.
std::vector<LeafRange> ranges_of_host(const LeafLayout& layout, std::span<const int> ranks) {
  std::vector<LeafRange> ranges;
  for (const int rank : ranks) {
    const auto& range = layout.ranges[static_cast<std::size_t>(rank)];
    if (!ranges.empty() && ranges.back().first + ranges.back().count == range.first) {
      ranges.back().count += range.count;
    } else {
      ranges.push_back(range);
    }
  }
  return ranges;
}

std::vector<TreeNode> nodes_of_instance(const LeafLayout& layout, int rank) {
  return nodes_of(layout.ranges[static_cast<std::size_t>(rank)]);
}

}  // namespace

ReductionTree HostNode::tree(const LeafLayout& layout) const {
  std::vector<TreeNode> within;
  for (const auto& part : parts) {
    auto own = nodes_of_instance(layout, part.rank)[part.index];
    own.first -= node.first;
    within.push_back(own);
  }
  return {within, node.width};
}

std::vector<HostNode> nodes_of_host(const LeafLayout& layout, std::span<const int> ranks) {
  std::vector<HostNode> nodes;
  for (const auto& range : ranges_of_host(layout, ranks)) {
    for (const auto& node : nodes_of(range)) nodes.push_back({node, {}});
  }
  std::size_t next = 0;
  for (const int rank : ranks) {
    const auto own = nodes_of_instance(layout, rank);
    for (std::size_t index = 0; index < own.size(); ++index) {
      while (own[index].first >= nodes[next].node.first + nodes[next].node.width) ++next;
      nodes[next].parts.push_back({rank, index});
    }
  }
  return nodes;
}

}  // namespace lockstep::comm::hosts

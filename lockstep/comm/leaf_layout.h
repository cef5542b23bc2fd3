#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/comm/ordered_reduction.h"

namespace lockstep::comm {

/// Which nodes of the tree each instance hands on, where rank r brings `counts[r]` leaves and those
/// of lower ranks come first.
struct LOCKSTEP_PRIVATE_API LeafLayout {
  struct Source {
    int rank;
    std::size_t index;  ///< among the nodes of that rank
  };

  explicit LeafLayout(std::span<const int> counts);

  std::vector<LeafRange> ranges;  ///< by rank
  std::vector<TreeNode> nodes;    ///< of all of them, ascending
  std::vector<Source> sources;    ///< of each node
  std::size_t most_nodes = 0;     ///< of any rank
  int num_leaves = 0;
};

/// Combines leaves that lie side by side in memory into the nodes that are handed on.
class LeafFolder {
 public:
  /// A mean is divided where the root is made, so nodes are sums.
  LeafFolder(LeafRange leaves, ReduceOp op);

  std::size_t num_nodes() const noexcept { return nodes_.size(); }

  /// Combines elements [begin, begin + count) of the leaves that make up node `index`.
  void fold(std::size_t index, std::span<const ConstBuffer> leaves, std::size_t begin,
            std::size_t count, void* node);

 private:
  struct Node {
    std::size_t first_leaf;  ///< among those of this instance
    std::size_t num_leaves;
    Reducer reducer;
  };
  std::vector<Node> nodes_;
};

}  // namespace lockstep::comm

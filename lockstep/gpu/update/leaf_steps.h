#pragma once

#include <vector>

#include "lockstep/comm/tree_node.h"
#include "lockstep/gpu/update/leaf.h"

namespace lockstep::gpu {

/// What is done with one leaf: it is combined with a row, then rows are added to each other.
struct LeafStep {
  struct Addition {
    int left;
    int right;  ///< free then
    bool operator==(const Addition&) const = default;
  };

  Combine combine = Combine::Write;
  int row = 0;
  std::vector<Addition> additions{};
};

/// How the leaves of one GPU become nodes of their tree, leaf by leaf.
struct LeafSteps {
  std::vector<LeafStep> steps;  ///< by leaf
  int num_rows = 0;             ///< that are needed
  std::vector<int> nodes;       ///< the rows in which the largest nodes stand then, ascending
};

/// The fixed tree over leaves 0..num_leaves-1, in about log2 of their number of rows. A leaf whose
/// left sibling stands complete in a row is added to it at once, and needs none of its own. The
/// root stands in row 0.
LeafSteps leaf_steps(int num_leaves);
/// The same for some leaves of a tree, up to the largest nodes that they make up.
LeafSteps leaf_steps(comm::LeafRange leaves);

}  // namespace lockstep::gpu

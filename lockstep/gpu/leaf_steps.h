#pragma once

#include <vector>

#include "lockstep/gpu/leaf.h"

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

/// How the leaves of one GPU become the root of their tree in row 0, leaf by leaf.
struct LeafSteps {
  std::vector<LeafStep> steps;  ///< by leaf
  int num_rows = 0;             ///< that are needed
};

/// The fixed tree over leaves 0..num_leaves-1, in about log2 of their number of rows. A leaf whose
/// left sibling stands complete in a row is added to it at once, and needs none of its own.
LeafSteps leaf_steps(int num_leaves);

}  // namespace lockstep::gpu

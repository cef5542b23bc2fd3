#pragma once

namespace lockstep::comm {

/// Leaves [first, first + count) in a row.
struct LeafRange {
  int first = 0;
  int count = 0;
  bool operator==(const LeafRange&) const = default;
};

/// Node [first, first + width) of the tree; `width` is a power of two that divides `first`.
struct TreeNode {
  int first = 0;
  int width = 1;
  bool operator==(const TreeNode&) const = default;
};

}  // namespace lockstep::comm

#pragma once

#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/comm/ordered_reduction.h"

namespace lockstep::comm {

/// Says how leaves that come one after another are folded as they come, in the tree's order: like a
/// binary counter, two nodes of one width that are siblings become the node above them at once. So
/// about log2 of the leaves' number of buffers is in use, not one for each.
class LOCKSTEP_PRIVATE_API LeafCounter {
 public:
  /// A node, and the buffer that holds it.
  struct Held {
    TreeNode node;
    int buffer;
  };
  /// The node in `from` is added to the one in `into`; `from` is free then.
  struct Fold {
    int into;
    int from;
  };

  explicit LeafCounter(LeafRange leaves) : leaves_(leaves) {}

  int num_missing() const noexcept { return leaves_.count - num_taken_; }
  /// The buffer that the next leaf is to be written to.
  int next_buffer() const;
  /// Takes the leaf in `next_buffer()`, and returns what is to be folded, in order.
  std::vector<Fold> take();
  /// Ascending; when no leaf is missing, these are `nodes_of` the leaves.
  const std::vector<Held>& held() const noexcept { return held_; }
  void restart() noexcept;

 private:
  LeafRange leaves_;
  int num_taken_ = 0;
  std::vector<Held> held_;
};

/// How many buffers it takes to fold these leaves.
int num_buffers_for(LeafRange leaves);

}  // namespace lockstep::comm

#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "lockstep/base/data_type.h"
#include "lockstep/base/export.h"
#include "lockstep/comm/operation.h"
#include "lockstep/comm/tree_node.h"

namespace lockstep::comm {

// The order in which floating-point numbers are combined.
//
// Leaves (what replicas or instances bring) are numbered 0..L-1. They are combined along one binary
// tree that depends on L alone: node [a, a + 2^k) is its left half combined with its right half,
// and halves that begin at or beyond L are skipped. Whoever carries leaves [a, b) may combine them
// into the largest nodes that lie within that range, and hand on only those; the rest of the
// tree then gives the same bits, whoever carried what.

/// The largest nodes that make up a range, ascending.
std::vector<TreeNode> nodes_of(LeafRange range);

/// How given nodes are combined into the root of a tree, as steps over numbered values: 0..n-1 are
/// the nodes, in their order; further ones are temporaries.
class LOCKSTEP_PRIVATE_API ReductionTree {
 public:
  struct Step {
    int left;
    int right;
    int temporary;  ///< where the result goes, counted from 0; the last step's is 0
  };

  /// Throws `Bug` where the nodes, ascending, are not a partition of leaves 0..num_leaves-1.
  ReductionTree(std::span<const TreeNode> nodes, int num_leaves);

  int num_nodes() const noexcept { return num_nodes_; }
  int num_leaves() const noexcept { return num_leaves_; }
  int num_temporaries() const noexcept { return num_temporaries_; }
  std::span<const Step> steps() const noexcept { return steps_; }

 private:
  int build(std::span<const TreeNode> nodes, TreeNode node, int depth);

  int num_nodes_;
  int num_leaves_;
  int num_temporaries_ = 0;
  int next_node_ = 0;
  std::vector<Step> steps_;
};

/// What nodes of more than one leaf, and all that lies between leaves and result, are kept in:
/// F32 for the float types up to f32, F64, or I64 for integers.
DataType accumulator_of(DataType type) noexcept;

/// One of the values that a tree starts from.
struct NodeData {
  const void* data = nullptr;
  DataType type = DataType::F32;  ///< the elements' own type, or its accumulator
};

/// Evaluates a tree for rows of elements; holds the temporaries, so it belongs to one thread.
/// Each element gets the same instructions wherever it stands.
class Reducer {
 public:
  Reducer(ReductionTree tree, ReduceOp op);

  /// Combines `count` elements. `result` holds elements of `type`, or of its accumulator, and
  /// may be one of the nodes. A `duplicate`, if any, gets the same while it is in the cache.
  void reduce(std::span<const NodeData> nodes, std::size_t count, DataType type, void* result,
              DataType result_type, void* duplicate = nullptr);

 private:
  void reduce_tile(std::span<const NodeData> nodes, std::size_t begin, std::size_t count,
                   DataType accumulator, void* result, DataType result_type);

  ReductionTree tree_;
  ReduceOp op_;
  std::vector<double> temporaries_;  // raw memory, aligned for every accumulator
};

}  // namespace lockstep::comm

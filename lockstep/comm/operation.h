#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/comm/buffer.h"
#include "lockstep/comm/reduce_op.h"
#include "lockstep/comm/tree_node.h"

namespace lockstep::comm {

enum class OperationKind : std::uint8_t {
  AllReduce,
  ReduceScatter,
  AllGather,
  Broadcast,
  Gather,
  Scatter,
  Barrier,
  Allocate,        ///< shared memory: the output is its offset
  AllReduceNodes,  ///< of a tree, between hosts
};

std::string_view name_of(OperationKind kind) noexcept;

/// Whether an operation combines elements, so that its operator means something.
bool combines(OperationKind kind) noexcept;

/// One collective as one instance asks for it; the pointers are its own.
///
/// AllReduce: `outputs` are the buffers; `inputs` are empty where the buffers themselves are what
/// each instance brings, else they are this instance's leaves and there is one output.
/// AllReduceNodes: `inputs` are the nodes that this instance brings, and `nodes` says which.
/// The others: at most one input and one output.
struct Operation {
  OperationKind kind = OperationKind::Barrier;
  ReduceOp op = ReduceOp::Sum;
  int root = -1;
  std::vector<ConstBuffer> inputs{};
  std::vector<Buffer> outputs{};
  std::string name{};     ///< the user's name for what is worked on, or empty
  int caller = 0;         ///< the thread that asks for it, as the kernel counts; 0: the last one
  std::size_t bytes = 0;  ///< to allocate
  std::vector<TreeNode> nodes{};
  int num_leaves = 0;  ///< of the tree that the nodes are of

  bool has_leaves() const noexcept { return kind == OperationKind::AllReduce && !inputs.empty(); }
};

/// What must be the same on every instance at the same number, and what a message says of it.
struct Signature {
  OperationKind kind;
  ReduceOp op;
  DataType type;
  bool has_leaves;
  std::int32_t root;
  std::int32_t buffers;  ///< how many of them a grouped operation has
  std::int64_t count;    ///< elements of all of them
  std::uint64_t layout;  ///< a hash over each one's type and count

  bool operator==(const Signature&) const = default;
};

Signature signature_of(const Operation& operation);

/// "all_reduce(sum, 1024 f32)", "broadcast(1 i64, root 3)".
std::string describe(const Signature& signature);

}  // namespace lockstep::comm

#pragma once

#include <span>
#include <string_view>

#include "lockstep/comm/buffer.h"
#include "lockstep/comm/operation.h"

/// Operations as users ask for them, with arguments that can be meant: `size` is the group's.
/// Errors: `Options`, naming operation, buffer and values.
namespace lockstep::comm::checked {

Operation all_reduce(std::span<const Buffer> buffers, ReduceOp op);
Operation all_reduce_leaves(std::span<const ConstBuffer> leaves, Buffer result, ReduceOp op);
Operation all_reduce_nodes(std::span<const TreeNode> nodes, std::span<const ConstBuffer> data,
                           int num_leaves, Buffer result);
Operation reduce_scatter(ConstBuffer blocks, Buffer result, ReduceOp op, int size);
Operation all_gather(ConstBuffer block, Buffer blocks, int size);
Operation barrier(std::string_view name);
Operation broadcast(Buffer buffer, int root, int size);

/// What all blocks are checked against matters on the root only.
struct Rooted {
  int root;
  int rank;
  int size;
};
Operation gather(ConstBuffer block, Buffer blocks, Rooted place);
Operation scatter(ConstBuffer blocks, Buffer block, Rooted place);

}  // namespace lockstep::comm::checked

#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "lockstep/comm/hosts/host_layout.h"
#include "lockstep/comm/hosts/host_nodes.h"

namespace lockstep::comm::hosts {

/// Room for so many bytes, which is made larger where it must be.
inline std::byte* room_of(std::vector<std::byte>& room, std::size_t bytes) {
  if (room.size() < bytes) room.resize(bytes);
  return room.data();
}

/// Combines what the instances of a host bring into the nodes that the host hands on. A mean is
/// divided where the root is made, so nodes are sums.
class NodeCombiner {
 public:
  NodeCombiner(const LeafLayout& leaves, const HostLayout& layout, ReduceOp op, DataType type)
      : leaves_(leaves), layout_(layout), type_(type) {
    const auto partial = op == ReduceOp::Mean ? ReduceOp::Sum : op;
    for (auto& node : nodes_of_host(leaves, layout.local_ranks())) {
      auto& added = nodes_.emplace_back(Entry{node, nullptr});
      if (node.parts.size() == 1) continue;
      added.reducer = std::make_unique<Reducer>(node.tree(leaves), partial);
      ++num_combined_;
    }
  }

  /// `part(local rank, index)` says where `count` elements of a node of an instance lie.
  template <typename Part>
  std::vector<const void*> combine(std::size_t count, std::vector<std::byte>& room, Part part) {
    const auto stride = count * size_of(accumulator_of(type_));
    auto* next = room_of(room, num_combined_ * stride);
    std::vector<const void*> found;
    for (auto& [node, reducer] : nodes_) {
      std::vector<NodeData> data;
      for (const auto& source : node.parts) {
        const auto own = nodes_of(leaves_.ranges[static_cast<std::size_t>(source.rank)]);
        data.push_back({part(layout_.local_rank(source.rank), source.index),
                        type_of_node(own[source.index], type_)});
      }
      found.push_back(reducer ? next : data.front().data);
      if (!reducer) continue;
      reducer->reduce(data, count, type_, next, accumulator_of(type_));
      next += stride;
    }
    return found;
  }

 private:
  struct Entry {
    HostNode node;
    std::unique_ptr<Reducer> reducer;  ///< where there is something to combine
  };
  const LeafLayout& leaves_;
  const HostLayout& layout_;
  DataType type_;
  std::vector<Entry> nodes_;
  std::size_t num_combined_ = 0;
};

}  // namespace lockstep::comm::hosts

#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "lockstep/comm/hosts/fabric.h"
#include "lockstep/comm/ordered_reduction.h"

namespace lockstep::comm::hosts {

/// Combines nodes that several hosts have into the root of their tree.
///
/// Each host gets a slice of every host's nodes, straight from where they lie, combines them, and
/// sends the result to the others: what has to cross the network crosses it once. Large rows go in
/// chunks, where the results of one travel together with the nodes of the next; small ones are sent
/// whole, and everybody combines all, which saves a journey.
class SliceReduction {
 public:
  struct Node {
    TreeNode node;
    DataType type;  ///< in which it travels
  };
  struct Shape {
    int host = 0;                          ///< this one
    std::vector<std::vector<Node>> nodes;  ///< by host, those of each ascending
    int num_leaves = 1;
    ReduceOp op = ReduceOp::Sum;
    DataType type = DataType::F32;  ///< of the result
  };
  using Exchange =
      std::function<void(std::span<const Fabric::Send>, std::span<const Fabric::Receive>)>;

  /// `room` is for what other hosts send; it is made as large as necessary.
  SliceReduction(Shape shape, std::vector<std::byte>& room, Exchange exchange);

  /// Combines `count` elements of all hosts' nodes; `mine` are this host's. The result may be one
  /// of them.
  void all_reduce(std::span<const void* const> mine, std::size_t count, void* result);

  /// Combines elements of which host h wants those from `bounds[h]` to `bounds[h + 1]`. The result
  /// gets those of this host.
  void reduce_scatter(std::span<const void* const> mine, std::span<const std::size_t> bounds,
                      void* result);

 private:
  struct Range {
    std::size_t begin;
    std::size_t end;
    std::size_t count() const noexcept { return end - begin; }
  };
  struct Source {
    int host;
    std::size_t index;  ///< among the host's nodes
  };

  int num_hosts() const noexcept { return static_cast<int>(shape_.nodes.size()); }
  std::size_t bytes_of_others(std::size_t count) const;
  Range slice_of(Range chunk, int host) const noexcept;
  void add_sends(std::span<const void* const> mine, int to, Range range);
  /// Room for this range of the nodes of all other hosts.
  void add_receives(Range range);
  void add_results(std::byte* result, Range chunk);
  void exchange();
  void combine(std::span<const void* const> mine, Range range, void* result);
  void all_reduce_at_once(std::span<const void* const> mine, std::size_t count, void* result);

  Shape shape_;
  std::vector<std::byte>& room_;
  Exchange exchange_;
  std::vector<Source> sources_;  ///< of the tree's nodes
  Reducer reducer_;
  std::vector<NodeData> data_;
  std::vector<std::vector<const std::byte*>> received_;  ///< by host, then node
  std::vector<Fabric::Send> sends_;
  std::vector<Fabric::Receive> receives_;
};

}  // namespace lockstep::comm::hosts

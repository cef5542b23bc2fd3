#include "lockstep/gpu/update/node_exchange.h"

#include "lockstep/comm/leaf_layout.h"

namespace lockstep::gpu {
namespace {

/// Slices begin at cache lines.
constexpr std::int64_t kAligned = 32;

std::int64_t slice_for(std::int64_t elements, int size) {
  return (elements + size * kAligned - 1) / (size * kAligned) * kAligned;
}

/// A node that is the left one of two is in its way to the root in the same place.
std::vector<LeafStep::Addition> additions_of(const comm::ReductionTree& tree) {
  std::vector<int> slots(static_cast<std::size_t>(tree.num_nodes() + tree.num_temporaries()));
  for (int i = 0; i < tree.num_nodes(); ++i) slots[static_cast<std::size_t>(i)] = i;
  std::vector<LeafStep::Addition> additions;
  for (const auto& step : tree.steps()) {
    const auto left = slots[static_cast<std::size_t>(step.left)];
    additions.push_back({left, slots[static_cast<std::size_t>(step.right)]});
    slots[static_cast<std::size_t>(tree.num_nodes() + step.temporary)] = left;
  }
  return additions;
}

}  // namespace

ExchangePlan plan_exchange(std::span<const int> leaves, std::int64_t elements) {
  const comm::LeafLayout layout(leaves);
  ExchangePlan plan{.slice = slice_for(elements, static_cast<int>(leaves.size()))};
  for (const auto& source : layout.sources) {
    plan.arrivals.push_back({.from = source.rank, .slot = plan.num_slots++});
  }
  plan.additions = additions_of(comm::ReductionTree(layout.nodes, layout.num_leaves));
  return plan;
}

NodeExchange::NodeExchange(std::shared_ptr<const NcclGroup> group, std::span<const int> leaves,
                           std::int64_t elements)
    : group_(std::move(group)),
      plan_(plan_exchange(leaves, elements)),
      slots_(static_cast<std::size_t>(plan_.num_slots * plan_.slice) * sizeof(float)) {}

void NodeExchange::sum_ordered(std::span<float* const> nodes, float* result, Stream stream) const {
  group_->exchange([&] {
    for (int to = 0; to < group_->size(); ++to) {
      for (const auto* node : nodes) group_->send(node + to * plan_.slice, plan_.slice, to, stream);
    }
    for (const auto& [from, index] : plan_.arrivals) {
      group_->receive(slot(index), plan_.slice, from, stream);
    }
  });
  for (const auto& [left, right] : plan_.additions) {
    add_rows(slot(left), slot(right), plan_.slice, stream);
  }
  copy_on_device(slot(0), result + group_->rank() * plan_.slice,
                 static_cast<std::size_t>(plan_.slice) * sizeof(float), stream);
  group_->all_gather(result, plan_.slice, stream);
}

void NodeExchange::sum_fast(std::span<float* const> nodes, float* result, Stream stream) const {
  for (std::size_t i = 1; i < nodes.size(); ++i) {
    add_rows(nodes[0], nodes[i], row_length(), stream);
  }
  if (nodes[0] != result) {
    copy_on_device(nodes[0], result, static_cast<std::size_t>(row_length()) * sizeof(float),
                   stream);
  }
  group_->all_reduce(result, row_length(), stream);
}

}  // namespace lockstep::gpu

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lockstep/gpu/memory.h"
#include "lockstep/gpu/update/leaf_steps.h"
#include "lockstep/gpu/update/nccl.h"

namespace lockstep::gpu {

/// How instances that have some leaves of one tree each come to its root. Each gets the same slice
/// of all nodes, combines them in the tree's order, and hands the result to all: as much is sent as
/// by a ring, and the bits are those of one instance that has all leaves.
struct ExchangePlan {
  /// Where a node of somebody's arrives.
  struct Arrival {
    int from = 0;
    int slot = 0;
    bool operator==(const Arrival&) const = default;
  };

  std::int64_t slice = 0;                       ///< elements that each combines
  std::vector<Arrival> arrivals{};              ///< in the order in which anybody sends its nodes
  std::vector<LeafStep::Addition> additions{};  ///< of slots; slot 0 has the root then
  int num_slots = 0;

  /// Of a row: all slices.
  std::int64_t padded(int size) const noexcept { return slice * size; }
};

/// `leaves` are how many each instance brings, those of the first coming first.
ExchangePlan plan_exchange(std::span<const int> leaves, std::int64_t elements);

/// Sums of rows that lie on the GPUs of several instances.
class NodeExchange {
 public:
  NodeExchange(std::shared_ptr<const NcclGroup> group, std::span<const int> leaves,
               std::int64_t elements);

  /// Elements that a row has room for.
  std::int64_t row_length() const noexcept { return plan_.padded(group_->size()); }
  const NcclGroup& group() const noexcept { return *group_; }

  /// Adds up nodes of all instances, in the tree's order. `nodes` are this one's, ascending; the
  /// sum stands in `result`, which may be one of them.
  void sum_ordered(std::span<float* const> nodes, float* result, Stream stream) const;
  /// The same in whatever order; `nodes` may be changed.
  void sum_fast(std::span<float* const> nodes, float* result, Stream stream) const;

 private:
  float* slot(int index) const { return slots_.as<float>() + index * plan_.slice; }

  std::shared_ptr<const NcclGroup> group_;
  ExchangePlan plan_;
  DeviceMemory slots_;
};

}  // namespace lockstep::gpu

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/comm/host/host_transport.h"
#include "lockstep/comm/hosts/call.h"
#include "lockstep/comm/hosts/element_row.h"
#include "lockstep/comm/hosts/host_layout.h"
#include "lockstep/comm/hosts/host_wait.h"
#include "lockstep/comm/hosts/hosts_job.h"
#include "lockstep/comm/hosts/slice_reduction.h"
#include "lockstep/comm/leaf_layout.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm::hosts {

/// The collectives of instances on several hosts.
///
/// Those of one host share memory. The first of them, its leader, collects what they bring, talks
/// to the leaders of the other hosts, and hands out what comes of it: as far as possible nothing
/// crosses the network more often than once for each host. Large operations go in chunks, so that
/// a leader needs little memory for them. Sums are combined along the same tree as on one host:
/// each host makes the largest nodes that it has all leaves of.
///
/// In the first message of each operation leaders say what they were asked for, so that all
/// instances of all hosts notice where they disagree.
class HostsTransport final : public Transport {
 public:
  /// For all instances of the job, which all make it.
  explicit HostsTransport(std::shared_ptr<HostsJob> job);

  int rank() const noexcept override { return layout_.rank; }
  std::span<const int> instances() const noexcept override { return layout_.instances; }
  std::span<const int> hosts() const noexcept override { return layout_.hosts; }
  void execute(const Operation& operation) override;
  void heartbeat(std::string_view doing) noexcept override { local_.heartbeat(doing); }
  void report_failure(const Error& error) noexcept override { local_.report_failure(error); }
  std::unique_ptr<Transport> group(std::span<const int> instances) override;
  SharedMemory allocate(std::size_t bytes, std::string_view name) override;
  KeptPiece keep(std::size_t bytes, std::string_view name, std::uint64_t fingerprint) override;
  void note_step(std::int64_t step) noexcept override { local_.note_step(step); }

 private:
  /// Of a group over several hosts.
  HostsTransport(const HostsTransport& parent, std::vector<int> instances);

  std::shared_ptr<Fabric> make_fabric(const HostsTransport& parent);
  template <typename Function>
  void or_fail(Function function);

  void run(const Operation& operation);
  void all_reduce(const Operation& operation);
  void all_reduce_leaves(const Operation& operation);
  void all_reduce_nodes(const Operation& operation);
  void reduce_scatter(const Operation& operation);
  void all_gather(const Operation& operation);
  void broadcast(const Operation& operation);
  void gather(const Operation& operation);
  void scatter(const Operation& operation);

  /// Says where elements [begin, begin + count) of one of this instance's nodes lie; it may write
  /// them into the room that it is given.
  using Brought = std::function<const std::byte*(std::size_t node, std::size_t begin,
                                                 std::size_t count, std::byte* room)>;
  void reduce_row(const LeafLayout& leaves, ReduceOp op, const ElementRow& result,
                  const Brought& brought);
  using BroughtPart = std::function<const std::byte*(std::size_t node, std::byte* room)>;
  std::vector<const std::byte*> collect_nodes(const LeafLayout& leaves, DataType type,
                                              std::size_t stride, const BroughtPart& brought);
  SliceReduction make_reduction(const LeafLayout& leaves, ReduceOp op, DataType type);

  // Between the instances of this host; everybody calls them alike.

  /// The leader gets everybody's block.
  void collect(const void* block, std::size_t bytes, std::byte* blocks);
  /// Everybody who has memory for it gets what `from` has.
  void spread(void* data, std::size_t bytes, int from = 0);
  /// Everybody gets its block of the leader's.
  void hand_out(const std::byte* blocks, std::size_t bytes, void* block);
  void meet();

  // Between leaders; the others do nothing.

  void begin_call(const Operation& operation);
  void exchange(std::span<const Fabric::Send> sends, std::span<const Fabric::Receive> receives);
  void look_around(std::span<const int> waiting_for);
  void compare_calls();
  void exchange_leaf_counts(std::span<std::int32_t> counts);
  std::vector<std::vector<SliceReduction::Node>> exchange_nodes(const Operation& operation);
  void send_to_all(int from, std::span<std::byte> bytes);
  /// The same for much: each of the others gets a part, and passes it on.
  void pass_around(int from, std::span<std::byte> bytes);

  bool is_leader() const noexcept { return local_.rank() == 0; }
  /// Calls `function(other host)` for each of them.
  template <typename Function>
  void for_other_hosts(Function function) const {
    for (int host = 0; host < layout_.num_hosts(); ++host) {
      if (host != layout_.host) function(host);
    }
  }

  std::shared_ptr<HostsJob> job_;
  const HostLayout layout_;
  std::uint64_t id_;  ///< of the group: the same on all hosts
  host::HostTransport local_;
  HostWait wait_;
  std::shared_ptr<Fabric> fabric_;  ///< on leaders

  std::vector<Call> calls_;  ///< of the operation that was begun, by host
  bool is_compared_ = true;
  host::Clock::time_point exchange_begin_{};
  // Kept from one operation to the next, so that they need not grow each time.
  std::vector<std::byte> brought_;
  std::vector<std::byte> collected_;
  std::vector<std::byte> combined_;
  std::vector<std::byte> received_;
  std::vector<std::byte> result_;
};

}  // namespace lockstep::comm::hosts

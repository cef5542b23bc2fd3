#pragma once

#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/comm/host/channel.h"
#include "lockstep/comm/host/packed_buffers.h"
#include "lockstep/comm/ordered_reduction.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm::host {

/// The collectives of instances that share memory, be they threads or processes.
///
/// Data goes through the channel in chunks. Between two passages of the gate, everybody does three
/// things: it works on the chunk that the others put there before the last passage, takes the
/// results of the chunk before that, and puts its part of the next one there. So a chunk costs one
/// passage, and does not leave the cache on its way. An all-reduce gives each instance a slice of
/// every chunk to combine; small ones are combined by everybody, which saves a passage.
class HostTransport final : public Transport {
 public:
  /// `everywhere` are the group's instances on this and other hosts; empty: all are on this one.
  HostTransport(std::shared_ptr<Member> member, const std::vector<int>& instances,
                const std::vector<int>& everywhere = {}, std::uint64_t parent = 0);

  int rank() const noexcept override { return channel_.rank(); }
  std::span<const int> instances() const noexcept override { return channel_.instances(); }
  std::span<const int> hosts() const noexcept override { return hosts_; }
  void execute(const Operation& operation) override;
  void heartbeat(std::string_view doing) noexcept override;
  void report_failure(const Error& error) noexcept override;
  std::unique_ptr<Transport> group(std::span<const int> instances) override;
  SharedMemory allocate(std::size_t bytes, std::string_view name) override;
  KeptPiece keep(std::size_t bytes, std::string_view name, std::uint64_t fingerprint) override;
  void note_step(std::int64_t step) noexcept override;

  // An operation over several hosts has parts between the instances of each.

  const Channel& channel() const noexcept { return channel_; }
  /// Announces the operation, and returns when those of this host agree on it.
  void begin(const Operation& operation);
  /// Moves data as `execute` does, as a part of the operation that was begun. Outputs that have no
  /// memory are not wanted.
  void run(const Operation& operation);
  void finish() noexcept { channel_.finish(); }

 private:
  void all_reduce(std::span<const Buffer> buffers, ReduceOp op);
  void all_reduce_at_once(const PackedBuffers& buffers, Reducer& reducer);
  void all_reduce_in_slices(const PackedBuffers& buffers, Reducer& reducer);
  void all_reduce_leaves(const Operation& operation);
  void all_reduce_nodes(const Operation& operation);
  void reduce_scatter(const Operation& operation);
  void all_gather(const Operation& operation);
  void broadcast(const Operation& operation);
  void gather(const Operation& operation);
  void scatter(const Operation& operation);

  template <typename Function>
  void or_fail(Function function);

  /// Everybody learns what rank 0 finds out, once all have asked for as many bytes.
  template <typename Find>
  void agree_on_memory(std::size_t bytes, std::string_view name, std::span<std::int64_t> found,
                       Find find);

  /// Calls `put(chunk, half)` and, a passage later, `take(chunk, half)` for each chunk.
  template <typename Put, typename Take>
  void exchange(std::size_t chunks, Put put, Take take);

  /// Each instance combines its slice of every chunk and gets the others' results. `put(whole,
  /// mine, half)` gives the others what they need of a chunk; `nodes(run, offset, half)` says where
  /// the nodes of a run in my slice lie, `offset` being the run's place in its chunk.
  template <typename Put, typename Nodes>
  void combine_in_slices(const PackedBuffers& buffers, std::size_t chunk_bytes, Reducer& reducer,
                         Put put, Nodes nodes);

  /// How many bytes of a chunk each of several has, in whole alignments.
  std::size_t part_of_chunk(int parts) const;

  /// The reducer over one leaf from each instance.
  Reducer& reducer(ReduceOp op);

  int size() const noexcept { return channel_.size(); }

  Channel channel_;
  std::uint64_t chunks_ = 0;  ///< exchanged so far; the last bit says which half is next
  std::vector<std::unique_ptr<Reducer>> reducers_;  // by operator
  std::vector<NodeData> nodes_;                     // room for one from each instance
  const std::vector<int> hosts_;                    // one and the same for each of them
};

}  // namespace lockstep::comm::host

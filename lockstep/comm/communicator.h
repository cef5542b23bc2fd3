#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "lockstep/base/error.h"
#include "lockstep/base/export.h"
#include "lockstep/comm/buffer.h"
#include "lockstep/comm/reduce_op.h"
#include "lockstep/comm/shared_memory.h"
#include "lockstep/comm/work.h"
#include "lockstep/events/status_sink.h"

namespace lockstep::comm {

class Transport;
enum class OperationKind : std::uint8_t;
struct Operation;
struct TreeNode;

/// A fixed group of instances that issue the same collectives in the same order.
///
/// A result is a function of what the instances bring and of their number alone: elements are
/// combined along one fixed tree (`ordered_reduction.h`), so the same bits come out over every
/// transport. `rank` counts within the group, and so do roots.
///
/// One thread at a time may call a member, except `heartbeat`, which any thread may call. Different
/// communicators, groups of each other included, may be used side by side. A buffer of an
/// asynchronous operation belongs to the communicator until `Work::wait` returns.
///
/// Errors: `Options` for arguments that cannot be meant, before anything is sent; `Options` on
/// every instance where instances disagree; `PeerLost` where an instance is gone; `Timeout` where
/// one is late beyond the deadline. All but the first end the job: every later call throws the
/// same.
class LOCKSTEP_API Communicator {
 public:
  explicit Communicator(std::unique_ptr<Transport> transport);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const noexcept;
  int size() const noexcept;
  /// The job's numbers of this group's instances, by rank.
  std::span<const int> instances() const noexcept;
  /// The host that each of them is on, by rank: numbers from 0 on, in order of the first instance
  /// on each.
  std::span<const int> hosts() const noexcept;
  int num_hosts() const noexcept;

  /// The instances of this group that are on this one's host: they share memory.
  Communicator& on_this_host();
  /// The first instance of each host, for those instances alone.
  Communicator& leaders();
  bool is_leader() const noexcept;

  /// Combines each element over all instances, in place.
  void all_reduce(Buffer buffer, ReduceOp op = ReduceOp::Sum);
  /// The same for many buffers as one operation.
  void all_reduce(std::span<const Buffer> buffers, ReduceOp op = ReduceOp::Sum);
  /// Combines leaves, of which each instance brings one or more: those of rank 0 come first, and so
  /// on. The result depends on the leaves, not on who brings them.
  void all_reduce_leaves(std::span<const ConstBuffer> leaves, Buffer result,
                         ReduceOp op = ReduceOp::Sum);
  /// Combines nodes of the tree over `num_leaves` leaves (`ordered_reduction.h`): between leaders
  /// of hosts, which bring all of them together, each its own, in the type of the result.
  void all_reduce_nodes(std::span<const TreeNode> nodes, std::span<const ConstBuffer> data,
                        int num_leaves, Buffer result);
  /// Combines `size()` blocks as `all_reduce` does; block r ends up on rank r.
  void reduce_scatter(ConstBuffer blocks, Buffer result, ReduceOp op = ReduceOp::Sum);
  /// Everybody gets everybody's block, by rank.
  void all_gather(ConstBuffer block, Buffer blocks);
  void broadcast(Buffer buffer, int root);
  /// The root gets everybody's block, by rank; `blocks` is for the root only.
  void gather(ConstBuffer block, Buffer blocks, int root);
  /// Rank r gets block r of the root's; `blocks` is for the root only.
  void scatter(ConstBuffer blocks, Buffer block, int root);
  void barrier(std::string_view name = {});

  /// The same operations in the background, in the order of the calls.
  class Async;
  Async async() noexcept;

  /// Says that this instance is alive and busy, so that its peers do not take it for late.
  void heartbeat(std::string_view doing);

  /// Ends the job: everybody's collectives throw this error, unless there is one before it.
  void report_failure(const Error& error) noexcept;

  /// The communicator of some of these instances, given by their numbers in the job, ascending.
  /// Only they call this. It lives as long as this one and is made once for each list.
  Communicator& group(const std::vector<int>& instances);

  /// Runs `function(group)` on these instances; the others go on at once. Collectives belong on the
  /// group that is handed over: this communicator refuses them until the function is done.
  template <typename Function>
  void on_instances(const std::vector<int>& instances, Function&& function) {
    const Scope scope(*this, instances);
    if (scope.group != nullptr) std::forward<Function>(function)(*scope.group);
  }

  /// Zeroed memory that all instances of the group share; everybody calls it alike.
  /// Errors: `Options` where they are on several hosts; `Unavailable` on every instance where the
  /// machine has not so much.
  SharedMemory allocate(std::size_t bytes, std::string_view name);

  /// The same for memory that the launcher keeps while it restarts the job, where it does: the
  /// restarted instances, which make the same calls in the same order, get it as it was left.
  /// `fingerprint` is of what it holds: where it differs, the memory is new. For all instances of
  /// the job that are on this host.
  KeptPiece keep(std::size_t bytes, std::string_view name, std::uint64_t fingerprint);

  /// Tells `sink` of each collective, also on groups, from now on; null: nobody. Nothing may be
  /// under way meanwhile.
  void watch(events::StatusSink* sink) noexcept;
  events::StatusSink* watched_by() const noexcept;

  /// Tells the launcher, without a wait, how far the training is.
  void note_step(std::int64_t step) noexcept;

 private:
  struct LOCKSTEP_INTERNAL Impl;
  /// While it lives, collectives belong on `group`, if this instance is in it.
  struct Scope {
    Scope(Communicator& communicator, const std::vector<int>& instances);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    Communicator& outer;
    const std::vector<int>* before;
    Communicator* group = nullptr;
  };
  int instance() const noexcept;
  std::vector<int> instances_of_host(int host) const;
  void check_members(const std::vector<int>& members) const;
  void check_scope(OperationKind kind) const;
  void prepare_to_allocate(std::size_t bytes, std::string_view name);
  void run(Operation operation);
  Work start(Operation operation);

  std::unique_ptr<Impl> impl_;
};

/// `communicator.async().all_reduce(gradients, ReduceOp::Mean)` starts what the member of the same
/// name of `Communicator` does, and returns at once.
class Communicator::Async {
 public:
  Work all_reduce(Buffer buffer, ReduceOp op = ReduceOp::Sum);
  Work all_reduce(std::span<const Buffer> buffers, ReduceOp op = ReduceOp::Sum);
  Work all_reduce_leaves(std::span<const ConstBuffer> leaves, Buffer result,
                         ReduceOp op = ReduceOp::Sum);
  Work reduce_scatter(ConstBuffer blocks, Buffer result, ReduceOp op = ReduceOp::Sum);
  Work all_gather(ConstBuffer block, Buffer blocks);
  Work broadcast(Buffer buffer, int root);
  Work gather(ConstBuffer block, Buffer blocks, int root);
  Work scatter(ConstBuffer blocks, Buffer block, int root);
  Work barrier(std::string_view name = {});

 private:
  friend class Communicator;
  explicit Async(Communicator& communicator) : communicator_(communicator) {}
  Communicator& communicator_;
};

/// Tells a sink of each collective while this lives; after that nobody, but where another one has
/// taken its place.
class WatchedCollectives {
 public:
  WatchedCollectives(Communicator& communicator, events::StatusSink* sink) noexcept
      : communicator_(communicator), sink_(sink) {
    communicator_.watch(sink_);
  }
  ~WatchedCollectives() {
    if (communicator_.watched_by() == sink_) communicator_.watch(nullptr);
  }
  WatchedCollectives(const WatchedCollectives&) = delete;
  WatchedCollectives& operator=(const WatchedCollectives&) = delete;

 private:
  Communicator& communicator_;
  events::StatusSink* sink_;
};

}  // namespace lockstep::comm

#pragma once

#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/base/export.h"
#include "lockstep/comm/communicator.h"
#include "lockstep/topology/identity.h"

namespace lockstep {

/// What a process knows of the job that it is part of, and the collectives over its instances.
///
/// A value: copies answer alike and share one communicator. Every member may be called from any
/// thread, except collectives: one thread at a time.
class LOCKSTEP_API World {
 public:
  /// Reads who this process is from its environment: lockstep's variables, torchrun's, Open MPI's
  /// or Slurm's; without any it is alone, one instance with one replica. However often it is
  /// called, the process meets the others once, as long as one of these is there.
  ///
  /// Errors: `Options`, naming the variable, where the environment contradicts itself.
  static World init();

  explicit World(topology::Identity identity) : identity_(std::move(identity)) {}
  /// A member of a group that is there already, as threads that are instances; it outlives this.
  World(topology::Identity identity, comm::Communicator& communicator);

  /// Whether some launcher started this process as one of a job, be it a job of one.
  bool launched() const noexcept { return launched_by() != topology::LaunchedBy::Nobody; }
  topology::LaunchedBy launched_by() const noexcept { return identity_.launched_by; }

  int instance() const noexcept { return identity_.instance; }
  int num_instances() const noexcept { return identity_.num_instances; }
  int local_instance() const noexcept { return identity_.local_instance; }
  int num_local_instances() const noexcept { return identity_.num_local_instances; }

  /// Replicas of the whole job, and of this instance.
  int num_replicas() const noexcept { return identity_.num_replicas; }
  int num_local_replicas() const noexcept { return identity_.local_replicas.count; }
  int first_replica() const noexcept { return identity_.local_replicas.first; }

  int devices_per_replica() const noexcept { return identity_.devices_per_replica; }

  /// The devices of this host that compute this instance's stages, replica by replica.
  std::span<const int> device_ids() const noexcept { return identity_.device_ids; }

  /// The devices of one of this instance's replicas, given by its number in the job.
  /// Errors: `Options` where another instance carries that replica.
  std::span<const int> device_ids(int replica) const;

  /// How often the launcher has started this job again after a failure.
  int restart_count() const noexcept { return identity_.restart_count; }

  /// The launcher's name for the job; empty where lockstep's launcher did not start it.
  const std::string& job_id() const noexcept { return identity_.job_id; }

  const topology::Identity& identity() const noexcept { return identity_; }
  /// Whether it is this process that is the instance: not so for threads that are instances.
  bool is_this_process() const noexcept { return is_this_process_; }

  /// All instances of the job. The first call meets the others, and returns when all have come.
  /// Errors: those of `comm::connect`.
  comm::Communicator& communicator() const&;
  comm::Communicator& communicator() const&& = delete;  // it would not outlive the call

  /// Collectives over all instances; `communicator()` has more of them, and groups.
  void all_reduce(const comm::Buffer& buffer, comm::ReduceOp op = comm::ReduceOp::Sum) const {
    communicator().all_reduce(buffer, op);
  }
  void all_reduce(std::span<const comm::Buffer> buffers,
                  comm::ReduceOp op = comm::ReduceOp::Sum) const {
    communicator().all_reduce(buffers, op);
  }
  void broadcast(const comm::Buffer& buffer, int root) const {
    communicator().broadcast(buffer, root);
  }
  void all_gather(const comm::ConstBuffer& block, const comm::Buffer& blocks) const {
    communicator().all_gather(block, blocks);
  }
  void barrier() const { communicator().barrier(); }

  /// Runs `function(communicator)` on some instances, with a communicator of theirs; the others go
  /// on at once.
  template <typename Function>
  void on_instances(const std::vector<int>& instances, Function&& function) const {
    communicator().on_instances(instances, std::forward<Function>(function));
  }

 private:
  struct Connection {
    std::once_flag once;
    std::unique_ptr<comm::Communicator> own;
    comm::Communicator* communicator = nullptr;
  };

  static std::shared_ptr<Connection> connection_of_this_process();

  topology::Identity identity_;
  bool is_this_process_ = false;
  std::shared_ptr<Connection> connection_ = std::make_shared<Connection>();
};

}  // namespace lockstep

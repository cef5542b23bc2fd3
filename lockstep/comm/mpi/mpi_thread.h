#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "lockstep/comm/mpi/mailbox.h"
#include "lockstep/comm/mpi/progress.h"
#include "lockstep/comm/mpi/rank_facts.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm::mpi {

/// The thread that makes every MPI call of the process, from MPI_Init to MPI_Finalize.
///
/// MPI ends with the process, because only then it is known how: MPI_Finalize waits for all other
/// ranks, so a process that ends in error leaves it out, and its message and exit code are not kept
/// back.
class MpiThread {
 public:
  /// Starts MPI and waits for all ranks. Once in the life of a process.
  static std::shared_ptr<MpiThread> start(RankFacts facts, const WaitOptions& options);

  const hosts::HostMap& map() const { return map_; }
  /// The host that this process leads, if it does.
  std::optional<int> host() const { return host_; }
  Mailbox& mailbox() { return mailbox_; }

  /// The process ends with this status.
  void finish(int exit_status) noexcept;

 private:
  enum class Phase { Starting, Serving, Failed, Ended };

  explicit MpiThread(RankFacts facts) : facts_(std::move(facts)) {}

  void run();
  std::optional<LeaderCommunicators> join_job();
  void learn_map();
  void set_phase(Phase phase);
  void wait_until_started(const WaitOptions& options);
  Ending serve(const std::optional<LeaderCommunicators>& leaders);

  const RankFacts facts_;
  hosts::HostMap map_;
  std::optional<int> host_;
  bool is_every_instance_a_rank_ = false;
  Mailbox mailbox_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Phase phase_ = Phase::Starting;
  std::optional<Error> error_;  ///< of `Failed`
};

}  // namespace lockstep::comm::mpi

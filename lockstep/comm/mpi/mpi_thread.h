#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "lockstep/comm/mpi/mailbox.h"
#include "lockstep/comm/mpi/places.h"
#include "lockstep/comm/mpi/progress.h"
#include "lockstep/comm/transport.h"

namespace lockstep::comm::mpi {

/// The thread that makes every MPI call of the process, from MPI_Init to MPI_Finalize.
///
/// MPI ends with the process, because only then it is known how: MPI_Finalize waits for all other
/// ranks, so a process that ends in error leaves it out, and its message and exit code are not kept
/// back. Ranks that have not ended, and say nothing, are waited for no longer than in a collective.
class MpiThread {
 public:
  /// Starts MPI and waits for all ranks. Once in the life of a process.
  static std::shared_ptr<MpiThread> start(Place place, const WaitOptions& options);

  const hosts::HostMap& map() const { return map_; }
  const Place& place() const { return place_; }
  /// The rank that an instance is, if it is one.
  std::optional<int> rank_of(int instance) const;
  /// The ranks that lead hosts, by host.
  const std::vector<int>& leaders() const { return leaders_; }
  Mailbox& mailbox() { return mailbox_; }

  /// The process ends with this status.
  void finish(int exit_status) noexcept;

 private:
  enum class Phase { Starting, Serving, Failed, Ended };

  MpiThread(Place place, const WaitOptions& options)
      : place_(std::move(place)), stall_timeout_(options.stall_timeout) {}

  void run();
  Communicators join_job();
  void learn_map();
  bool is_every_instance_a_rank() const;
  void set_phase(Phase phase);
  bool wait_for_end_within(std::chrono::milliseconds limit);
  bool wait_for_end_with_others();
  void wait_until_started(const WaitOptions& options);

  const Place place_;
  const std::chrono::duration<double> stall_timeout_;
  hosts::HostMap map_;
  std::vector<int> instances_;  ///< by rank
  std::vector<int> leaders_;
  Mailbox mailbox_;

  std::mutex mutex_;
  std::condition_variable changed_;
  Phase phase_ = Phase::Starting;
  std::optional<Error> error_;  ///< of `Failed`
};

}  // namespace lockstep::comm::mpi

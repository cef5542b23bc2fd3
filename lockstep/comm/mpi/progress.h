#pragma once

#include <mpi.h>

#include <chrono>
#include <list>
#include <memory>
#include <optional>

#include "lockstep/comm/mpi/control_channel.h"
#include "lockstep/comm/mpi/mailbox.h"
#include "lockstep/comm/mpi/transfer.h"

namespace lockstep::comm::mpi {

/// Of all ranks.
struct Communicators {
  MPI_Comm data;
  MPI_Comm control;
};

/// Moves what the mailbox holds, on the thread that speaks MPI.
///
/// MPI moves anything only while it is called, so everything that is open is asked about in turns:
/// without rest at first, then in ever longer intervals, since whoever keeps us waiting may need
/// the core.
///
/// A transfer that is given up leaves requests behind that MPI cannot take back: it would go on to
/// read and write buffers that are gone. From then on MPI is not asked to move anything, only to
/// send messages, most of which leave at once.
///
/// Before MPI is finalized, all ranks are waited for here, where those who still work are heard.
class Progress {
 public:
  Progress(Mailbox& mailbox, const Communicators& communicators);

  /// Returns when the mailbox says how to end.
  Ending serve();

 private:
  using Clock = Mailbox::Clock;
  struct Active {
    std::shared_ptr<Transfer> transfer;
    TransferRequests requests;
    std::optional<Clock::time_point> frozen_at;  ///< where it is being given up
  };

  void serve(const Mailbox::News& news);
  void start(const std::shared_ptr<Transfer>& transfer);
  void send(const Mailbox::Outgoing& outgoing);
  void move_transfers();
  /// Whether all of it has moved.
  bool move(Active& active);
  void move_messages();
  void freeze(const Error& error, const Mailbox::News& news);
  void check_buffers() const;
  void wait_for_all_ranks();
  Clock::duration rest() const;

  Mailbox& mailbox_;
  MPI_Comm data_;
  ControlChannel control_;
  std::list<Active> active_;
  Clock::time_point last_moved_;
  bool is_frozen_ = false;
  bool is_closed_ = false;
  bool is_expecting_tags_ = false;
};

}  // namespace lockstep::comm::mpi

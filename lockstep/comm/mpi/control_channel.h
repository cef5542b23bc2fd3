#pragma once

#include <mpi.h>

#include <list>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/mpi/control_message.h"

namespace lockstep::comm::mpi {

/// Small messages between ranks, on a communicator of their own. For the thread that speaks MPI
/// alone.
class ControlChannel {
 public:
  struct Received {
    int rank;
    ControlMessage message;
  };

  /// Takes messages from now on.
  explicit ControlChannel(MPI_Comm communicator);

  /// Sends to one rank, without waiting. A rank that takes no messages gets no second `Alive`: they
  /// would only pile up.
  void send(int rank, const ControlMessage& message);

  /// Moves on what is being sent, and returns what has come.
  std::optional<Received> poll();
  bool is_sending() const { return !sending_.empty(); }

  /// Takes no messages any more.
  void close();

 private:
  struct Sending {
    int rank;
    bool is_sign_of_life;
    std::string bytes;
    MPI_Request request;
  };
  void receive_next();
  void drop_what_is_sent();

  MPI_Comm communicator_;
  std::string incoming_;
  MPI_Request receiving_ = MPI_REQUEST_NULL;
  std::list<Sending> sending_;
};

}  // namespace lockstep::comm::mpi

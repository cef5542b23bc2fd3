#pragma once

#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::comm::mpi {

/// What one `exchange` moves from or to one rank.
struct TransferPart {
  enum class Direction { Send, Receive };
  Direction direction;
  int rank;          ///< of the MPI job
  int tag;           ///< the receiver's for this fabric
  std::byte* bytes;  ///< read from where it is sent
  std::size_t size;
};

/// One `exchange`: the thread that waits for it and the one that speaks MPI share it.
struct Transfer {
  std::vector<TransferPart> parts;

  /// Under the mutex of the engine.
  std::map<int, int> open_pieces;  ///< by rank
  bool is_done = false;
  bool is_given_up = false;  ///< the buffers are about to go away
  std::optional<Error> error;
  std::condition_variable changed;
};

/// The requests of one transfer. For the thread that speaks MPI alone.
///
/// Large parts go in pieces: MPI counts in `int`, and each piece that arrives tells that things are
/// moving, so that they are looked at more often.
class TransferRequests {
 public:
  /// The pieces of a transfer by rank, before any of them moves.
  static std::map<int, int> count_pieces(const std::vector<TransferPart>& parts);

  void post(const std::vector<TransferPart>& parts, MPI_Comm communicator);

  /// The ranks of the pieces that are through since the last call. Throws where one has failed.
  std::vector<int> test();

  bool is_empty() const { return requests_.empty(); }
  /// Takes back what nobody has sent yet; `test` sees it as through. What is being sent or
  /// received cannot be taken back.
  void cancel_receives();

 private:
  struct Piece {
    TransferPart::Direction direction;
    int rank;
    int size;
  };
  void post_piece(const TransferPart& part, std::size_t offset, int size, MPI_Comm communicator);
  void check(const Piece& piece, const MPI_Status& status, int code) const;

  std::vector<MPI_Request> requests_;
  std::vector<Piece> pieces_;  ///< of each request
  std::vector<int> indices_;
  std::vector<MPI_Status> statuses_;
  bool is_cancelled_ = false;
};

}  // namespace lockstep::comm::mpi

#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "lockstep/comm/hosts/fabric.h"
#include "lockstep/comm/mpi/control_channel.h"
#include "lockstep/comm/mpi/transfer.h"

namespace lockstep::comm::mpi {

/// How the thread that speaks MPI is to end.
enum class Ending {
  Finalize,  ///< with MPI_Finalize, which waits for all ranks
  Leave,     ///< at once, without another MPI call
};

/// Stands between the threads that want something moved and the one that speaks MPI: they hand
/// over and wait here. No MPI call is made in it.
class Mailbox {
 public:
  using LookAround = hosts::Fabric::LookAround;
  using Clock = std::chrono::steady_clock;

  struct Outgoing {
    std::vector<int> ranks;
    ControlMessage message;
  };
  /// What the thread that speaks MPI has not heard of yet.
  struct News {
    std::vector<std::shared_ptr<Transfer>> transfers;
    std::vector<Outgoing> messages;
    bool is_expecting_tags = false;
    bool is_closed = false;
    std::optional<Ending> ending;
  };

  /// For those who want something; any thread.

  /// Returns when all of it has moved. Where `look_around` throws, the buffers are free again when
  /// this throws, too: MPI has given them back, or is not called any more.
  void exchange(const std::shared_ptr<Transfer>& transfer, const LookAround& look_around);
  void send(Outgoing outgoing);
  /// With ranks in place of hosts.
  std::vector<hosts::Note> take_notes();
  /// A tag that no other fabric of this rank has.
  int new_tag();
  /// The tags that ranks have sent for a fabric, in the order of the ranks.
  std::vector<int> take_tags(std::uint64_t fabric, std::span<const int> ranks,
                             const LookAround& look_around);
  /// Nobody wants anything any more: waits a little for messages to be on their way.
  void close() noexcept;
  void end(Ending ending) noexcept;
  /// Whether this rank or another has said that the job has failed.
  bool has_failed() const;

  /// For the thread that speaks MPI.

  News take_news();
  /// Returns at once where there are news, else after this time.
  void wait_for_news(Clock::duration longest);
  bool is_given_up(const Transfer& transfer) const;
  /// Whether somebody has left buffers that MPI still holds. Then MPI must not be called for data
  /// any more: it would write into them.
  bool has_abandoned_buffers() const;
  /// When another rank was last heard of.
  Clock::time_point last_heard() const;
  void note_moved_pieces(Transfer& transfer, std::span<const int> ranks);
  void note_done(Transfer& transfer, const std::optional<Error>& error);
  void note_sending(bool is_sending);
  void deliver(const ControlChannel::Received& received);
  void note_failure();

 private:
  void submit(const std::shared_ptr<Transfer>& transfer);
  void wait_for(Transfer& transfer, const LookAround& look_around);
  void give_up(Transfer& transfer) noexcept;
  bool has_news() const;
  void keep(const hosts::Note& note);

  mutable std::mutex mutex_;
  std::condition_variable has_news_;
  std::condition_variable has_delivered_;
  News news_;
  std::vector<hosts::Note> notes_;
  /// By fabric and rank; several where fabrics have been made with one id.
  std::map<std::pair<std::uint64_t, int>, std::deque<int>> tags_;
  int last_tag_ = 0;  ///< that of the first fabric
  bool is_sending_ = false;
  bool has_failed_ = false;
  bool has_abandoned_buffers_ = false;
  Clock::time_point last_heard_{};
};

}  // namespace lockstep::comm::mpi

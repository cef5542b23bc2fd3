#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "lockstep/base/error.h"

namespace lockstep::comm::hosts {

/// What the leader of a host tells the others beside data.
struct Note {
  enum class Kind : std::uint32_t {
    Alive,   ///< it is there
    Failed,  ///< an instance of the host has failed, and so has the job
    Left,    ///< it needs nobody any more
    Lost,    ///< it is gone without a word: not sent, but found out
  };
  Kind kind = Kind::Alive;
  int host = 0;  ///< whose note it is
  /// Of `Alive`: for how long no instance of the host has said that it is busy; negative: none ever
  /// has.
  std::chrono::nanoseconds quiet_for{-1};
  std::optional<Error> error{};  ///< of `Failed`
};

/// Carries bytes between the leaders of several hosts; they are numbered from 0.
///
/// One thread at a time calls `exchange` and `split`; any thread calls `tell` and `take_notes`.
/// Fabrics that were split from each other may be used side by side.
class Fabric {
 public:
  struct Send {
    int host;
    std::span<const std::byte> bytes;
  };
  struct Receive {
    int host;
    std::span<std::byte> bytes;
  };
  /// Called about every 100 ms while something is waited for, with the hosts that have yet to send
  /// or take something, and have done neither since the last call. It throws to give up; then only
  /// destruction is allowed.
  using LookAround = std::function<void(std::span<const int> waiting_for)>;

  virtual ~Fabric() = default;

  virtual int host() const noexcept = 0;
  virtual int num_hosts() const noexcept = 0;

  /// Moves all of it at once, and returns when all is sent and received. What goes from one host to
  /// another arrives in order: the receiver names the same sizes in the same order.
  /// Errors: `PeerLost` where a host is gone; `Io`.
  virtual void exchange(std::span<const Send> sends, std::span<const Receive> receives,
                        const LookAround& look_around) = 0;

  /// A fabric between some of these hosts, ascending, which all of them make with the same `id`,
  /// one that no other has. `look_around` gets the numbers that hosts have here.
  virtual std::unique_ptr<Fabric> split(std::span<const int> hosts, std::uint64_t id,
                                        const LookAround& look_around) = 0;

  /// Tells all other hosts of the job, soon; it does not wait. Those that are gone miss it.
  virtual void tell(const Note& note) noexcept = 0;
  /// What other hosts have told since the last call.
  virtual std::vector<Note> take_notes() = 0;
};

}  // namespace lockstep::comm::hosts

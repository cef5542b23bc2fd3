#pragma once

#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>

#include "lockstep/base/file.h"
#include "lockstep/comm/tcp/handshake.h"

namespace lockstep::comm::tcp {

/// Takes connections of those who know the job's secret.
///
/// Anybody may connect; strangers learn nothing and hold nobody up: nothing here waits for one of
/// them, each has a few seconds and a few bytes to prove itself, and where too many try at once the
/// oldest goes. Whoever has proven itself has a place that strangers cannot take. One thread at a
/// time uses a listener.
class Listener {
 public:
  static constexpr std::size_t kMostPending = 64;
  static constexpr std::chrono::seconds kTimeToProve{5};
  /// For the last word of whoever has proven itself, and takes itself for connected.
  static constexpr std::chrono::seconds kTimeToEnd{60};

  /// Says whether a client that knows the secret is welcome, before it gets an answer.
  using IsWelcome = std::function<bool(const Payload&)>;
  /// Gets the connection of one who was welcome; it does not wait in any call.
  using Welcome = std::function<void(UniqueFd, const Payload&)>;

  /// `socket` listens, and does not wait. Errors: `Io`.
  Listener(UniqueFd socket, const Secret& secret, IsWelcome is_welcome, Welcome welcome);

  /// Whether it can be read says whether there is something to serve.
  int descriptor() const noexcept { return poll_.get(); }
  /// Serves whoever has come or sent something, and returns when nothing more has happened; at the
  /// latest, where nothing happens, when the limit is over.
  void serve(std::chrono::milliseconds limit);

  /// Those that have yet to prove themselves.
  std::size_t num_pending() const noexcept { return pending_.size(); }

 private:
  using Clock = std::chrono::steady_clock;
  struct Guest {
    UniqueFd socket;
    ServerHandshake handshake;
    Clock::time_point deadline;
    bool is_welcome;
  };
  using Guests = std::list<Guest>;

  void accept_some();
  void add(UniqueFd socket);
  void serve_guest(Guests::iterator guest);
  bool read_from(Guest& guest);
  bool answer(Guest& guest);
  bool drop_oldest_stranger();
  void drop(Guests::iterator guest);
  void drop_late();
  std::chrono::milliseconds time_to_wait(std::chrono::milliseconds limit) const;

  UniqueFd socket_;
  Secret secret_;
  IsWelcome is_welcome_;
  Welcome welcome_;
  UniqueFd poll_;
  Guests pending_;  ///< strangers, oldest first
  Guests proven_;   ///< those of them that have proven themselves
  std::map<int, Guests::iterator> by_descriptor_;
};

}  // namespace lockstep::comm::tcp

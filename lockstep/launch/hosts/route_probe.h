#pragma once

#include <poll.h>

#include <chrono>
#include <optional>
#include <string>

#include "lockstep/base/file.h"
#include "lockstep/comm/tcp/handshake.h"
#include "lockstep/comm/tcp/socket.h"

namespace lockstep::launch {

/// Tries whether a host can be reached at an address and port, and whether who listens there knows
/// the job's secret. Where it hangs up, which strangers may have brought it to, it is tried again
/// for as long as there is time. It never blocks: it is attended to when its descriptor is ready,
/// or a time has come.
class RouteProbe {
 public:
  using Clock = std::chrono::steady_clock;
  enum class State { Waiting, Reached, Failed };

  static constexpr std::chrono::seconds kPatience{5};
  /// What sets it apart from those who come for more.
  static constexpr comm::tcp::Payload kPayload{};

  RouteProbe(int host, const std::string& address, int port, const comm::tcp::Secret& secret);

  int host() const noexcept { return host_; }
  State state() const noexcept { return state_; }
  /// Why it failed.
  const std::string& problem() const noexcept { return problem_; }
  /// When it is to be attended to, whatever its descriptor does.
  Clock::time_point next_time() const noexcept { return next_try_.value_or(deadline_); }
  pollfd descriptor() const;
  void attend();

 private:
  void connect();
  void finish_connecting();
  void read_some();
  void write_some();
  void fail(std::string problem);
  void try_again_or_fail(std::string problem);

  int host_;
  comm::tcp::SocketAddress to_;
  comm::tcp::Secret secret_;
  UniqueFd socket_;
  Clock::time_point deadline_ = Clock::now() + kPatience;
  std::optional<Clock::time_point> next_try_;  ///< where it is between two
  comm::tcp::ClientHandshake handshake_;
  std::string unsent_;
  bool is_connecting_ = true;
  State state_ = State::Waiting;
  std::string problem_;
};

}  // namespace lockstep::launch

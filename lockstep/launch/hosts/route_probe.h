#pragma once

#include <poll.h>

#include <chrono>
#include <string>

#include "lockstep/base/file.h"
#include "lockstep/comm/tcp/handshake.h"

namespace lockstep::launch {

/// Tries whether a host can be reached at an address and port, and whether who listens there knows
/// the job's secret. It never blocks: it is attended to when its descriptor is ready, or its time
/// is over.
class RouteProbe {
 public:
  using Clock = std::chrono::steady_clock;
  enum class State { Waiting, Reached, Failed };

  static constexpr std::chrono::seconds kPatience{5};

  RouteProbe(int host, const std::string& address, int port, const comm::tcp::Secret& secret);

  int host() const noexcept { return host_; }
  State state() const noexcept { return state_; }
  /// Why it failed.
  const std::string& problem() const noexcept { return problem_; }
  Clock::time_point deadline() const noexcept { return deadline_; }
  pollfd descriptor() const;
  void attend();

 private:
  void finish_connecting();
  void read_some();
  void write_some();
  void fail(std::string problem);

  int host_;
  UniqueFd socket_;
  Clock::time_point deadline_ = Clock::now() + kPatience;
  comm::tcp::ClientHandshake handshake_;
  std::string unsent_;
  bool is_connecting_ = true;
  State state_ = State::Waiting;
  std::string problem_;
};

}  // namespace lockstep::launch

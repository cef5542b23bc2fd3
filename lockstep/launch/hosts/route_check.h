#pragma once

#include <poll.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/comm/tcp/listener.h"
#include "lockstep/launch/hosts/route_probe.h"

namespace lockstep::launch {

/// Finds out, on one host, whether all others can be reached: connects to the socket of each, and
/// answers at its own. It never blocks.
class RouteCheck {
 public:
  using Clock = std::chrono::steady_clock;

  struct Failure {
    int host;
    std::string why;
  };

  struct Peer {
    int host;
    std::string address;
    int port;
  };

  /// `listener` stays the caller's; `peers` may hold this host itself.
  RouteCheck(int listener, const comm::tcp::Secret& secret, const std::vector<Peer>& peers,
             int own_host);

  std::vector<pollfd> descriptors() const;
  std::optional<Clock::time_point> next_time() const;
  void attend();

  /// Whether this host has tried all others; they may still be at it, so it goes on answering.
  bool is_done() const;
  std::vector<Failure> failures() const;

 private:
  comm::tcp::Listener listener_;
  std::vector<RouteProbe> probes_;
};

}  // namespace lockstep::launch

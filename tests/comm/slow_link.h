#pragma once

#include <chrono>
#include <list>
#include <thread>

#include "lockstep/base/file.h"

namespace lockstep::testing {

/// A port of this machine that hands on what comes to another one, and back, late: as a network
/// with that latency would.
class SlowLink {
 public:
  SlowLink(int target_port, std::chrono::milliseconds delay);
  ~SlowLink();
  SlowLink(const SlowLink&) = delete;
  SlowLink& operator=(const SlowLink&) = delete;

  int port() const noexcept { return port_; }

 private:
  void serve();
  void pump(int from, int to) const;

  int target_port_;
  std::chrono::milliseconds delay_;
  UniqueFd listener_;
  int port_;
  std::list<UniqueFd> connections_;
  std::list<std::thread> pumps_;
  std::thread server_;
};

}  // namespace lockstep::testing

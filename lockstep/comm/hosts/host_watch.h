#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "lockstep/comm/host/member.h"
#include "lockstep/comm/hosts/fabric.h"
#include "lockstep/comm/hosts/host_map.h"

namespace lockstep::comm::hosts {

/// Keeps a host and the others informed of each other, on a thread of its own, on each leader.
///
/// What fails here is told there, and what failed there becomes the verdict here; a host that is
/// gone without a word is a failure, too. Signs of life go into the memory of the host, for whoever
/// waits for others (`HostWait`). Destruction says farewell.
class HostWatch {
 public:
  /// All of them outlive it.
  HostWatch(host::Member& member, Fabric& fabric, const HostMap& map);
  ~HostWatch();
  HostWatch(const HostWatch&) = delete;
  HostWatch& operator=(const HostWatch&) = delete;

 private:
  void serve();
  void take(const Note& note);
  void take_loss(int host);
  bool tell_verdict();
  void tell_alive();

  host::Member& member_;
  Fabric& fabric_;
  const HostMap& map_;
  bool has_told_verdict_ = false;
  host::Clock::time_point last_alive_{};

  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_ending_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace lockstep::comm::hosts

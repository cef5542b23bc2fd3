#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/comm/communicator.h"
#include "lockstep/comm/tcp/secret.h"
#include "lockstep/comm/tcp/socket.h"
#include "lockstep/comm/transport.h"
#include "lockstep/topology/identity.h"
#include "tests/comm/slow_link.h"

namespace lockstep::comm::host {
class JobMemory;
class KeptMemory;
}  // namespace lockstep::comm::host

namespace lockstep::testing {

/// A job on several hosts, all of which are in this process: each instance is a thread, and each
/// host has a memory of its own and an address of the loopback device.
class HostsGroup {
 public:
  /// The instances of each host.
  using Layout = std::vector<std::vector<int>>;

  /// `kept` is what the launcher keeps on each host; nothing where it keeps none.
  explicit HostsGroup(Layout layout, comm::WaitOptions options = {},
                      std::vector<std::shared_ptr<comm::host::KeptMemory>> kept = {});

  /// Hosts reach each other late from now on: before the first instance joins.
  void slow_down(std::chrono::milliseconds delay);

  int num_instances() const noexcept { return num_instances_; }
  const std::vector<topology::JobHost>& hosts() const noexcept { return hosts_; }
  const comm::tcp::Secret& secret() const noexcept { return secret_; }

  /// Called once for each instance, on the thread that is to use it: it returns when all have come.
  std::unique_ptr<comm::Transport> join(int instance);

 private:
  Layout layout_;
  comm::WaitOptions options_;
  std::vector<std::shared_ptr<comm::host::KeptMemory>> kept_;
  int num_instances_ = 0;
  comm::tcp::Secret secret_ = comm::tcp::Secret::random();
  std::vector<topology::JobHost> hosts_;
  std::vector<UniqueFd> listeners_;
  std::vector<std::shared_ptr<comm::host::JobMemory>> memories_;
  std::vector<std::unique_ptr<SlowLink>> links_;  // last: they end before listeners do
};

/// "2x2", "1+3"; "0,2|1,3" where instances of a host are not neighbours.
std::string to_string(const HostsGroup::Layout& layout);

/// Runs `function` on a thread for each instance, and returns when all are done. Throws what a
/// thread threw: of several errors one that is not about a lost peer.
void run_hosts(HostsGroup& group, const std::function<void(comm::Communicator&)>& function);
void run_hosts(const HostsGroup::Layout& layout,
               const std::function<void(comm::Communicator&)>& function,
               const comm::WaitOptions& options = {});

}  // namespace lockstep::testing

#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "lockstep/comm/host/member.h"
#include "lockstep/comm/hosts/fabric.h"
#include "lockstep/comm/hosts/host_map.h"
#include "lockstep/comm/hosts/host_watch.h"

namespace lockstep::comm::hosts {

/// What an instance of a job on several hosts has for all its groups.
struct HostsJob {
  /// Makes a fabric between any instances, ascending, one of each of several hosts.
  using Connect = std::function<std::unique_ptr<Fabric>(
      std::span<const int> instances, std::uint64_t id, const Fabric::LookAround& look_around)>;

  HostMap map;
  std::shared_ptr<void> session;  ///< what the fabrics need as long as they live; or nothing
  std::shared_ptr<host::Member> member;
  std::shared_ptr<Fabric> fabric;    ///< between leaders; none where this instance is not one
  Connect connect{};                 ///< nothing where only leaders can be connected
  std::unique_ptr<HostWatch> watch;  ///< on leaders; last, for it uses the others
};

}  // namespace lockstep::comm::hosts

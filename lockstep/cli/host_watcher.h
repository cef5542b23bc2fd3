#pragma once

#include <memory>
#include <string>

#include "lockstep/launch/hosts/agent.h"
#include "lockstep/topology/environment.h"

namespace lockstep::cli {

/// Looks at its host for an agent, as `lockstep monitor` there would: the instances that this agent
/// has started, and the devices.
///
/// It looks in a thread of its own, for drivers and file systems may hang, and a job must not wait
/// for those who watch it. For the same reason nobody waits for that thread: where it hangs, there
/// are no reports, and it ends with the process.
class HostWatcher {
 public:
  explicit HostWatcher(topology::Environment environment);
  ~HostWatcher();
  HostWatcher(const HostWatcher&) = delete;
  HostWatcher& operator=(const HostWatcher&) = delete;

  /// What it has seen since it was last asked, and asks it to look again. Empty: nothing yet.
  std::string report(const launch::WatchedHost& host);

 private:
  struct Shared;
  static void look_when_asked(const std::shared_ptr<Shared>& shared,
                              const topology::Environment& environment);

  topology::Environment environment_;
  std::shared_ptr<Shared> shared_;  ///< with the thread, from the first report on
};

}  // namespace lockstep::cli
